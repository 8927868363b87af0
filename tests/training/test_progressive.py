"""Progressive bits: more bits before the plan's own, in one run, with one optimiser."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from command_line import assert_refused_without_a_folder
from configured import small, train
from interrupted import Interrupt, Snapshots
from own_problem import build, fitted, own_problem
from pdqat import FULL, Ascent, BitPlan, NuPI, Precision, TaskProblem, load
from pdqat.config.new_run import Given, new_run
from pdqat.errors import InputError
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run
from pdqat.task import Problem
from pdqat.training.callbacks import Callback
from pdqat.training.progressive import plans_by_epoch
from pdqat.training.replanning import Replanning
from pdqat.training.settings import Settings
from same_run import assert_same_run, differences
from small_problems import state

LAYERS = ("3.0", "4")


def views(history: Any) -> list[str]:
    """The low-precision view of every epoch."""
    return [next(view for view in entry["accuracy"] if view != "full") for entry in history.epochs]


def straight_through(**how: Any) -> TaskProblem:
    return TaskProblem(own_problem(**how).net, F.cross_entropy)


# Which plans, and when


@pytest.mark.parametrize(
    ("progressive", "epochs", "warm_up", "starts"),
    [
        (["4"], 6, 0.0, {0: "4-bit", 3: "2-bit"}),
        ([8, 4], 6, 0.0, {0: "8-bit", 2: "4-bit", 4: "2-bit"}),
        (["4"], 6, 0.34, {2: "4-bit", 4: "2-bit"}),
        (["8", "w4a8"], 4, 0.0, {0: "8-bit", 1: "w4a8", 2: "2-bit"}),
        ([Precision(4, 4)], 5, 0.6, {3: "4-bit", 4: "2-bit"}),
        ([], 5, 0.6, {}),
    ],
)
def test_the_epochs_after_the_warm_up_are_shared_in_equal_parts(
    progressive: list[Any], epochs: int, warm_up: float, starts: dict[int, str]
) -> None:
    settings = Settings(epochs=epochs, warm_up=warm_up, progressive=progressive)
    plans = plans_by_epoch(own_problem(), settings)
    assert {epoch: plan.name for epoch, plan in plans.items()} == starts


def test_layers_keep_more_bits_of_their_own_and_full_precision() -> None:
    own = {"3.0": Precision(2, 8), "4": Precision(None, 2)}
    problem = own_problem(bits=BitPlan("mine", own))
    plans = plans_by_epoch(problem, Settings(epochs=2, progressive=["4"]))
    assert plans[0].precisions == {"3.0": Precision(4, 8), "4": Precision(None, 4)}
    assert plans[1].precisions == own
    without = own_problem(bits=BitPlan("mine", {**own, "4": FULL}))
    weights_only = plans_by_epoch(without, Settings(epochs=2, progressive=["w4"]))[0]
    assert weights_only.precisions == {"3.0": Precision(4, None), "4": FULL}


# In a training


@pytest.mark.parametrize("method", ["pdqat", "ste"])
def test_it_ends_under_the_own_plan_with_the_problem_that_was_given(method: str) -> None:
    problem = own_problem() if method == "pdqat" else straight_through()
    history = fitted(problem, epochs=4, progressive=[8, 4], warm_up=0.25)
    names = [{view for view in entry["accuracy"] if view != "full"} for entry in history.epochs]
    assert names == [set(), {"8-bit"}, {"4-bit"}, {"2-bit"}]
    assert [entry.get("view") for entry in history.epochs] == ["8-bit", "8-bit", "4-bit", None]
    assert [set(entry.get("plan", {}).values()) for entry in history.epochs] == [{"8"}, {"8"}, {"4"}, set()]
    assert history.problem is problem
    assert history.summary["chosen_epoch"] == 4, "the best epoch is one of the plan's own"
    assert history.summary["plans"] == {"2-bit": {"3.0": "2", "4": "2"}}
    for entry, bits in zip(history.epochs[1:], (8, 4, 2), strict=True):
        tolerances = {bound["kind"]: bound["tolerance"] for bound in entry["constraints"]}
        if method == "pdqat":
            assert tolerances["layer"] == pytest.approx(1 / (2**bits - 1) ** 2)
            assert tolerances["output"] == pytest.approx(1 / 9), "what the model is for stays the same"


class Look(Callback):
    """Copies a problem's state at the first report of the second epoch."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.seen: dict[str, Any] = {}

    def step(self, epoch: int, step: int, objective: float) -> None:
        if epoch == 2 and not self.seen:
            self.seen = state(self._problem)


def test_weights_and_multipliers_go_on_as_when_the_plan_is_changed_by_hand() -> None:
    def still(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, 0.0)

    problem, other = (own_problem(duals=NuPI(0.5, damping=0.1, nu=0.5)) for _ in range(2))
    look = Look(problem)
    fitted(problem, epochs=2, progressive=[4], optimizer=still, callbacks=[look])
    other = other.under_plan(BitPlan.uniform(4, LAYERS))
    fitted(other, epochs=1, optimizer=still)
    expected = state(other.under_plan(BitPlan.uniform(2, LAYERS)))
    moving = ("running", "tracked", "modes", "distance_sum", "samples")  # with every batch
    same = [key for key in expected if not any(word in key for word in moving)]
    assert {"duals.multipliers", "duals.smoothed", "net.4.weight"} <= set(same)
    assert differences({key: look.seen[key] for key in same}, {key: expected[key] for key in same}) == []
    assert other.duals.multipliers.tolist() != [1, 0, 0], "which have moved"


def test_adams_steps_are_counted_on(tmp_path: Path) -> None:
    fitted(own_problem(), epochs=2, progressive=[4], out=tmp_path / "run")
    states = load_checkpoint(tmp_path / "run" / "last.pt")["optimizer"]["state"].values()
    assert {float(state["step"]) for state in states} == {6}, "of 3 an epoch"


VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "layers": (lambda: own_problem(duals=Ascent(0.5), view_sample=0.5), {"progressive": [8, 4]}),
    "objective of low precision": (
        lambda: own_problem(gradient="straight-through", objective="low"),
        {"progressive": [4], "dual_every": 2},
    ),
    "warm-up, flips, lsq": (
        lambda: own_problem(quantizer="lsq", gradient="straight-through"),
        {"progressive": [4], "warm_up": 0.25, "flip_rate": 0.02, "norm_batches": 2},
    ),
    "straight-through": (lambda: straight_through(quantizer="uniform"), {"progressive": ["w4a8"], "patience": 1}),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_stopped_and_continued_training_equals_an_undisturbed_one(tmp_path: Path, name: str) -> None:
    made, options = VARIANTS[name]
    path = tmp_path / "whole"
    fitted(made(), epochs=4, out=path, callbacks=[Snapshots(path, tmp_path)], **options)
    last = len(Run.open(path).metrics())
    for epoch in range(1, last):
        problem = made()
        history = fitted(problem, epochs=4, out=tmp_path / str(epoch), resume=True, **options)
        assert_same_run(Run.open(path), Run.open(tmp_path / str(epoch)))
        assert history.problem is problem


def test_a_folder_says_under_which_plan_its_models_are(tmp_path: Path) -> None:
    """The best one of a training that was stopped in between too."""
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        fitted(own_problem(), epochs=4, progressive=[4], out=out, callbacks=[Interrupt(2)])
    for checkpoint in ("best", "last"):
        assert load(out, build(), checkpoint=checkpoint).net.plans == {"4-bit": BitPlan.uniform(4, LAYERS)}
    fitted(own_problem(), epochs=4, progressive=[4], out=out, resume=True)
    for checkpoint in ("best", "last"):
        assert list(load(out, build(), checkpoint=checkpoint).net.plans) == ["2-bit"]


def test_patience_begins_with_the_plan_of_its_own() -> None:
    history = fitted(own_problem(), epochs=8, progressive=[4], patience=1, lr=1e-9)
    assert len(history.epochs) >= 5
    assert views(history)[-1] == "2-bit"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile uses what torch advises against
def test_a_compiled_training_ends_with_the_numbers_of_an_eager_one() -> None:
    eager, compiled = (fitted(own_problem(), progressive=[4], lr=1e-4, compile=flag) for flag in (False, True))
    assert compiled.summary["compiled"]
    for one, other in zip(eager.epochs, compiled.epochs, strict=True):
        assert one["objective"] == pytest.approx(other["objective"], rel=1e-2)


# What is refused


def full_precision() -> Problem:
    return TaskProblem(own_problem().net, F.cross_entropy, low=False)


@pytest.mark.parametrize(
    ("problem", "how", "said"),
    [
        (own_problem, {"progressive": "4"}, "progressive is a list of precisions, such as [8, 4], not '4'"),
        (own_problem, {"progressive": ["x"]}, "a precision is a number of bits from 1 to 8"),
        (own_problem, {"progressive": ["full"]}, "progressive bits 'full' leave every layer in full precision"),
        (own_problem, {"progressive": [2]}, "'2' is not above what comes next, the plan '2-bit'"),
        (own_problem, {"progressive": [1]}, "'1' is not above what comes next, the plan '2-bit'"),
        (own_problem, {"progressive": [4, 8]}, "'4' is not above what comes next, the plan '8-bit'"),
        (own_problem, {"progressive": [8, 4]}, "are 3 precisions, one after the other: they need as many epochs"),
        (own_problem, {"progressive": [4], "warm_up": 0.5}, "they need as many epochs after the warm-up, not 1"),
        (lambda: own_problem(bits=[2, 3]), {"progressive": [4]}, "to train with progressive bits it must have one"),
        (full_precision, {"progressive": [4]}, "and the problem trains full precision only"),
        (own_problem, {"progressive": ["a8"], "flip_rate": 0.1}, "the plan 'a8' has none"),
        (
            own_problem,
            {"progressive": [4], "replanning": Replanning("2 bits")},
            "progressive bits lead to a plan that is known, and a budget chooses one",
        ),
    ],
)
def test_what_can_not_be_trained_is_said_in_one_sentence(problem: Any, how: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as refused:
        fitted(problem(), **how)
    assert said in str(refused.value)


def test_an_optimizer_of_the_plans_own_parameters_is_refused() -> None:
    problem = own_problem()
    optimizer = torch.optim.SGD(problem.net.parameters(), 0.1)
    with pytest.raises(InputError, match="bits that change on the way make new parameters: give the optimizer as a"):
        fitted(problem, progressive=[4], optimizer=optimizer)


def test_it_is_continued_with_the_epochs_and_the_bits_that_it_was_begun_with(tmp_path: Path) -> None:
    out = tmp_path / "run"
    fitted(own_problem(), epochs=2, progressive=[4], out=out)
    with pytest.raises(InputError, match="of 6 epochs this one would be under '4-bit': continue progressive bits with"):
        fitted(own_problem(), epochs=6, progressive=[4], out=out, resume=True)
    with pytest.raises(InputError, match=r"its progressive is \['4'\], here it is \[\]"):
        fitted(own_problem(), epochs=2, out=out, resume=True)


# Of the command line


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--progressive", "9"], "progressive must hold precisions"),
        (["--progressive", "2"], "'2' is not above what comes next"),
        (["--progressive", "4", "--bits", "2", "1"], "to train with progressive bits it must have one"),
        (["--progressive", "4", "--method", "full"], "the problem trains full precision only"),
        (["--progressive", "4", "--budget", "2 bits"], "a budget chooses one: give one of both"),
        (["--progressive", "8", "4", "--epochs", "2"], "they need as many epochs after the warm-up, not 2"),
    ],
)
def test_bad_input_is_refused_before_there_is_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert_refused_without_a_folder(tmp_path, capsys, arguments, complaint)


def test_a_run_that_goes_on_from_it_has_come_down_to_its_bits(tmp_path: Path) -> None:
    config = small(progressive=["4"], warm_up=0.34, epochs=3, train_images=64, method="ste")
    run = train(tmp_path / "run", config)
    assert [list(entry["accuracy"]) for entry in run.metrics()] == [["full"], ["4-bit"], ["2-bit"]]
    assert list(run.summary()["accuracy"]) == ["2-bit"]
    ready = new_run(Given({"epochs": 1}, source=run.path, out=tmp_path / "next"))
    assert (ready.config.progressive, ready.config.warm_up) == ([], 0.0), "it is warm, too"
