"""What `fit` refuses rather than train something else, and what it leaves as it was."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pdqat
from own_problem import TRAINING, fitted, own_problem
from pdqat.errors import InputError
from pdqat.metric import KEYS, Metric
from pdqat.precision import BitPlan
from pdqat.runs.folder import Run
from pdqat.training.callbacks import Callback


def refusal(problem: Any = None, **how: Any) -> str:
    with pytest.raises(InputError) as error:
        fitted(own_problem() if problem is None else problem, **how)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_optimizer_of_the_parameters_before_a_change_of_plan_is_refused() -> None:
    problem = own_problem()
    optimizer = torch.optim.SGD(problem.net.parameters(), 0.1)
    other = problem.under_plan(BitPlan.uniform("4", ["4"]))
    assert "the optimizer holds parameters that are not the problem's" in refusal(other, optimizer=optimizer)
    fitted(problem, optimizer=optimizer)


def test_a_scheduler_of_another_optimizer_is_refused() -> None:
    problem = own_problem()
    optimizers = [torch.optim.SGD(problem.net.parameters(), 0.1) for _ in range(2)]
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizers[0], 0.9)
    assert "the scheduler is of another optimizer" in refusal(problem, optimizer=optimizers[1], scheduler=scheduler)


def test_loaders_that_are_none_are_refused() -> None:
    assert "validation must be an iterable of (inputs, target)" in refusal(validation=None)
    with pytest.raises(InputError, match="batches must be an iterable"):
        fitted(own_problem(), None)


def test_an_empty_validation_is_refused_with_any_metric() -> None:
    metric = Metric("margin", lambda output, _: output.max(1).values)
    assert "there is no batch to evaluate on" in refusal(validation=[], metric=metric)


def test_accuracy_of_targets_that_are_no_labels_is_refused() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1))
    batches = [(inputs, inputs.sum(1, keepdim=True)) for inputs, _ in TRAINING]
    net = pdqat.prepare(model, TRAINING[0][0], bits=2)
    problem = pdqat.Lagrangian(net, F.mse_loss, [pdqat.OutputConstraint("squared")])
    with pytest.raises(InputError, match="accuracy is for targets that are class labels"):
        pdqat.fit(problem, batches, validation=batches, epochs=1, metric="accuracy", progress=False)


@pytest.mark.parametrize("key", KEYS)
def test_a_metric_has_no_name_of_what_files_hold_beside_it(key: str) -> None:
    with pytest.raises(InputError, match="a metric's name is a word other than"):
        Metric(key, lambda output, _: output.mean())


class Unsized:
    """Batches whose number is not known."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(TRAINING)


@pytest.mark.parametrize("every", [2, 4])
def test_steps_of_multipliers_are_counted_over_epochs_whether_their_number_is_known_or_not(every: int) -> None:
    ways = [fitted(own_problem(), batches, epochs=3, dual_every=every).epochs for batches in (TRAINING, Unsized())]
    assert ways[0] == ways[1]
    multipliers = [entry["constraints"][0]["multiplier"] for entry in ways[0]]
    assert multipliers[-1] != 1, "the output's multiplier has moved from where it starts"


def test_what_is_random_after_fit_does_not_depend_on_it() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    problem = own_problem()
    torch.manual_seed(3)
    fitted(problem)
    assert torch.equal(torch.rand(2), expected)


def test_a_training_that_fails_in_its_first_epoch_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(InputError, match="there is no batch to train on"):
        fitted(own_problem(), [], out=folder)
    with pytest.raises(InputError, match="a batch must be a pair"):
        fitted(own_problem(), [(1, 2, 3)], out=folder)
    with pytest.raises(InputError, match="there is no batch to evaluate on"):
        fitted(own_problem(), out=folder, validation=[])
    assert not folder.exists()
    fitted(own_problem(), out=folder)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"seed": 1}, "is of another training: its seed is 0, here it is 1"),
        ({"accumulate": 3}, "is of another training: its accumulate is 1, here it is 3"),
        ({"clip_norm": 1.0}, "is of another training: its clip_norm is None, here it is 1.0"),
        ({"milestones": [0.3]}, "is of another training: its milestones is"),
        (
            {"optimizer": torch.optim.Adam, "scheduler": lambda it: torch.optim.lr_scheduler.ExponentialLR(it, 0.9)},
            "is of another training: its scheduler is False, here it is True",
        ),
    ],
)
def test_a_training_is_resumed_as_it_was_begun(tmp_path: Path, how: dict[str, Any], said: str) -> None:
    fitted(own_problem(), out=tmp_path / "run", epochs=1)
    summary = (tmp_path / "run" / "summary.json").read_bytes()
    assert said in refusal(out=tmp_path / "run", resume=True, **how)
    assert (tmp_path / "run" / "summary.json").read_bytes() == summary


def test_a_problem_with_another_loss_is_not_resumed(tmp_path: Path) -> None:
    fitted(own_problem(), out=tmp_path / "run", epochs=1)
    problem = own_problem()
    problem.loss = lambda output, target: 2 * F.cross_entropy(output, target)
    assert "is of another problem: its loss is 'cross_entropy'" in refusal(problem, out=tmp_path / "run", resume=True)


def test_a_finished_training_can_go_on_for_more_epochs_and_has_no_summary_meanwhile(tmp_path: Path) -> None:
    fitted(own_problem(), out=tmp_path / "run", epochs=1)

    class Stop(Callback):
        def epoch(self, entry: dict[str, Any]) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(own_problem(), out=tmp_path / "run", resume=True, epochs=3, callbacks=[Stop()])
    assert not Run.open(tmp_path / "run").summary_file.exists()
    assert fitted(own_problem(), out=tmp_path / "run", resume=True, epochs=3).summary["epochs"] == 3


class Pair(NamedTuple):
    """Inputs with names."""

    left: Tensor
    right: Tensor


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        y: Tensor = self.last(self.middle(self.first(left + right)))
        return y


def test_a_run_of_inputs_in_a_named_tuple_is_opened_again(tmp_path: Path) -> None:
    batches = [(Pair(inputs, inputs), target) for inputs, target in TRAINING]
    problem = pdqat.Lagrangian(pdqat.prepare(Two(), batches[0][0], bits=2), F.cross_entropy)
    pdqat.fit(problem, batches, validation=batches, epochs=1, out=tmp_path / "run", progress=False)
    again = pdqat.load(tmp_path / "run", Two())
    assert torch.equal(again.net(*batches[0][0]), problem.net(*batches[0][0]))


def test_a_run_of_another_loss_is_loaded_with_it_or_asks_for_it(tmp_path: Path) -> None:
    for loss, folder in ((F.nll_loss, "torch"), (lambda output, target: F.nll_loss(output, target), "own")):
        problem = own_problem()
        problem.loss = loss
        fitted(problem, out=tmp_path / folder, epochs=1)
    assert pdqat.load(tmp_path / "torch", own_problem().net.restore()).loss is F.nll_loss
    with pytest.raises(InputError, match="trained with a loss of own code"):
        pdqat.load(tmp_path / "own", own_problem().net.restore())


def test_a_run_that_can_not_be_loaded_leaves_the_model_plain(tmp_path: Path) -> None:
    fitted(own_problem(), out=tmp_path / "run", epochs=1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3))
    for _ in range(2):  # the second time it is not "prepared already"
        with pytest.raises(InputError, match="plan '2-bit' names the layer"):
            pdqat.load(tmp_path / "run", model)
    (tmp_path / "run" / "best.pt").unlink()
    with pytest.raises(InputError, match="there is no checkpoint"):
        pdqat.load(tmp_path / "run", model)
    assert type(model[1]) is nn.Linear


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"optimizer": 5}, "optimizer is a torch optimizer, or a function of parameters that makes one, not 5"),
        ({"optimizer": lambda _: None}, "optimizer is a torch optimizer, or a function of parameters that makes one"),
        (
            {"optimizer": torch.optim.Adam, "scheduler": 5},
            "scheduler is one of torch's, or a function of the optimizer",
        ),
        ({"callbacks": [print]}, "callbacks is a list of pdqat.training.callbacks.Callback, not"),
        ({"callbacks": Callback()}, "callbacks is a list of pdqat.training.callbacks.Callback, not"),
        ({"out": 5}, "the run folder out is named by text or a path, not 5"),
    ],
)
def test_arguments_of_another_type_are_refused(how: dict[str, Any], message: str) -> None:
    assert message in refusal(**how)


def test_a_folder_a_metric_and_a_plan_of_another_type_are_refused() -> None:
    wrong: Any = 5
    with pytest.raises(InputError, match="a run folder is named by text or a path, not 5"):
        pdqat.load(wrong)
    with pytest.raises(InputError, match="a metric's name is a word"):
        Metric(wrong, len)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"a metric is a function of \(output, target\), not 5"):
        Metric("score", wrong)
    with pytest.raises(InputError, match="a plan is a BitPlan, or what allocate returned, not 5"):
        own_problem().under_plan(wrong)


def test_a_folder_that_does_not_name_newer_options_is_resumed_with_their_defaults(tmp_path: Path) -> None:
    fitted(own_problem(objective="full"), out=tmp_path / "run", epochs=1, norm_batches=0)
    run = Run.open(tmp_path / "run")
    older = run.problem()
    del older["duals"]["restart"]
    for name in ("objective", "teacher", "view_sample"):
        del older[name]
    for name in ("warm_up", "norm_batches", "progressive", "flip_rate"):
        del older["training"][name]
    run.write_problem(older)
    restarts = own_problem(duals=pdqat.Ascent(restart=True), objective="full")
    assert "is of another problem: its duals is" in refusal(restarts, out=run.path, resume=True, norm_batches=0)
    other = refusal(own_problem(), out=run.path, resume=True, norm_batches=0)
    assert "its objective is 'full', here it is 'low'" in other
    assert fitted(own_problem(objective="full"), out=run.path, resume=True, norm_batches=0).summary["epochs"] == 2
