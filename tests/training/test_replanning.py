"""Bits chosen under a budget while a problem trains, and tolerances that tune themselves."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from interrupted import Snapshots
from pdqat import (
    FULL,
    BitPlan,
    InputError,
    Lagrangian,
    LayerConstraint,
    Metric,
    NuPI,
    OutputConstraint,
    Precision,
    TaskProblem,
    fit,
    models,
    prepare,
)
from pdqat.allocation.prices import predict
from pdqat.dual_rules import Ascent
from pdqat.layers.sizes import layer_sizes
from pdqat.runs.checkpoints import load_checkpoint, save_checkpoint
from pdqat.runs.folder import Run
from pdqat.training.callbacks import Callback
from pdqat.training.history import History
from pdqat.training.replanning import Replanning
from same_run import assert_same_run
from small_problems import Small, drawn, labels, small

STEPS = 3
BATCHES: list[tuple[Tensor, Tensor]] = [(drawn(16, 1, 8, 8, seed=n), labels(16)) for n in range(STEPS)]
FIRST = "stages.0.0.conv0"


class StopAfter(Callback):
    """Stops the training after an epoch."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def epoch(self, entry: dict[str, Any]) -> None:
        if entry["epoch"] == self._epoch:
            raise KeyboardInterrupt


def residual(bits: int = 1, quantizer: str = "dorefa", **options: Any) -> Lagrangian:
    """A small residual network; with 1 bit to start with, any choice among more bits is another plan."""
    torch.manual_seed(0)
    preparation = {name: options.pop(name) for name in ("tied_norms", "integer_sums") if name in options}
    model = models.build("preresnet-small", 1, 10, (1, 8, 8))
    net = prepare(model, BATCHES[0][0], bits, quantizer=quantizer, **preparation)
    tolerance, price = options.pop("tolerance", None), options.pop("price", None)
    constraints = [OutputConstraint("kl", 0.3), LayerConstraint("relative", tolerance, price)]
    return Lagrangian(net, F.cross_entropy, constraints, **{"duals": Ascent(0.5), **options})


def fitted(problem: Lagrangian, replanning: Replanning | None, epochs: int = 4, **options: Any) -> History:
    options = {"progress": False, "lr": 1e-3, **options}
    return fit(problem, BATCHES, validation=BATCHES[:1], epochs=epochs, replanning=replanning, **options)


def two_or_four(budget: str = "2.5 bits", at: tuple[float, ...] = (0.25, 0.5), **options: Any) -> Replanning:
    return Replanning(budget, bits=[2, 4], at=at, **options)


def average_bits(problem: Lagrangian, plan: dict[str, str]) -> float:
    sizes = layer_sizes(problem.net)
    bits = sum((Precision.parse(text).weight or 32) * sizes[layer].parameters for layer, text in plan.items())
    return bits / sum(sizes[layer].parameters for layer in plan)


# What is chosen, on problems with multipliers set by hand.


@pytest.mark.parametrize("quantizer", ["dorefa", "uniform", "uniform-channel", "lsq"])
@pytest.mark.parametrize("by", ["multipliers", "distances"])
def test_the_plan_is_the_cheapest_by_the_multipliers_or_where_all_are_zero_by_distances(
    quantizer: str, by: str
) -> None:
    made = small(quantizer=quantizer, gradient="straight-through")
    if by == "distances":
        made.problem.duals.multipliers[1:].zero_()
    replanning = Replanning("2.5 bits")
    problem = replanning.started(made.problem)
    replan = replanning.choose(problem, made.batches)
    assert replan.by == by
    scores = {
        bound.where: float(problem.duals.named()[bound.name]) if by == "multipliers" else 1.0
        for bound in problem.bounds[1:]
    }
    candidates = [Precision(bits, bits) for bits in (1, 2, 4, 8)]
    costs = predict(problem, list(made.batches), scores, True, dict.fromkeys(scores, candidates)).costs
    fitting = [
        sum(costs[layer][precision] for layer, precision in zip(costs, plan, strict=True))
        for plan in itertools.product(candidates, repeat=3)
        if average_bits(problem, {layer: str(bits) for layer, bits in zip(costs, plan, strict=True)}) <= 2.5
    ]
    assert replan.solution.cost == pytest.approx(min(fitting))
    plan = BitPlan("mixed", replan.solution.precisions)
    other = problem.under_plan(plan)
    assert replanning.used(other).amounts[0].number == pytest.approx(average_bits(problem, plan.as_text()))
    assert other(*made.first).isfinite()


@pytest.mark.parametrize("kind", ["signal", "regression", "tuple of inputs", "inputs by name"])
def test_bits_are_chosen_for_problems_of_any_kind(kind: str) -> None:
    made = small(kind)
    replanning = Replanning("3 bits", bits=[2, 4])
    problem = replanning.started(made.problem)
    replan = replanning.choose(problem, made.batches)
    assert set(replan.solution.precisions) == set(problem.net.layers)
    assert replan.solution.used.amounts[0].number <= 3


def test_a_problem_starts_with_its_plan_by_layers_and_with_the_rules() -> None:
    made = small()
    problem = Replanning("2.5 bits").started(made.problem)
    assert problem is not made.problem
    assert problem.net.plans == {"mixed": BitPlan("mixed", dict.fromkeys(("3", "6", "9"), Precision(2, 2)))}
    assert Replanning("2.5 bits").started(problem) is problem
    assert torch.equal(problem.duals.multipliers, made.problem.duals.multipliers)
    pinned = Replanning("8 bits", layers={"3": 1, "6": "full"}).started(made.problem)
    assert pinned.net.plans["mixed"].as_text() == {"3": "1", "6": "full", "9": "2"}


def test_layers_with_a_rule_keep_their_precision_and_count_unless_it_is_full() -> None:
    made = small()
    replanning = Replanning("2 bits", layers={"3": 1, "6": "full"})
    problem = replanning.started(made.problem)
    solution = replanning.choose(problem, made.batches).solution
    assert solution.precisions["3"] == Precision(1, 1)
    assert "6" not in solution.precisions
    sizes = layer_sizes(problem.net)
    counted = [sizes[layer].parameters for layer in ("3", "9")]
    bits = solution.precisions["9"].weight
    assert bits is not None
    assert solution.used.amounts[0].number == pytest.approx((counted[0] + bits * counted[1]) / sum(counted))


def test_layers_that_the_plan_has_in_full_precision_stay_there_and_count() -> None:
    made = small()
    kept = made.problem.under_plan(BitPlan("mixed", {"3": FULL}))
    solution = Replanning("14 bits", bits=[1, 2]).choose(kept, made.batches).solution
    assert solution.precisions["3"] == FULL
    with pytest.raises(InputError, match="no plan fits into 3 bits: the smallest possible one takes"):
        Replanning("3 bits", bits=[1, 2]).started(kept)


@pytest.mark.parametrize(
    ("at", "total", "epochs"), [((0.3, 0.6), 10, {3, 6}), ((0.01, 0.99), 4, {1, 3}), ((0.5,), 2, {1}), ((0.4,), 3, {1})]
)
def test_bits_are_chosen_after_whole_epochs_with_one_before_and_one_after(
    at: tuple[float, ...], total: int, epochs: set[int]
) -> None:
    assert Replanning("2 bits", at=at).epochs(total) == epochs


def test_weights_norms_and_multipliers_go_on_under_another_plan() -> None:
    problem = Replanning("2.5 bits").started(residual(bits=2))
    problem.duals.multipliers.uniform_(0.1, 1)
    problem.duals.smoothed.uniform_(-1, 1)
    for value in problem.net.state_dict().values():
        if value.is_floating_point():
            value.uniform_(0.1, 1)
    raised = dict.fromkeys(list(problem.net.layers)[:2], Precision(4, 4))
    other = problem.under_plan(BitPlan("mixed", raised))
    plan = other.net.plans["mixed"].as_text()
    assert plan == {layer: "4" if layer in raised else "2" for layer in problem.net.layers}
    before, after = problem.net.state_dict(), other.net.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[key], before[key]) for key in before)
    assert torch.equal(other.duals.multipliers, problem.duals.multipliers)
    assert torch.equal(other.duals.smoothed, problem.duals.smoothed)


@pytest.fixture(scope="module")
def made() -> Small:
    return small()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget": "much"}, "a budget is an amount above 0 with a unit"),
        ({"at": ()}, "bits are chosen after parts of the epochs, above 0 and below 1, not []"),
        ({"at": (0.5, 1.0)}, "above 0 and below 1, not [0.5, 1.0]"),
        ({"bits": []}, "there must be at least one precision to choose from"),
        ({"bits": [2, "a8"]}, "must be precisions with quantised weights: others leave no multiplier to go by"),
        ({"budget": "0.5 bits"}, "no plan fits into 0.5 bits: the smallest possible one takes 1 bits"),
        ({"layers": {"*": 2}}, "the precision of every layer is fixed by layers: the budget leaves nothing to choose"),
        ({"bits": [2]}, "the budget leaves nothing to choose"),
        ({"layers": {"nothing": "full"}}, "the layer rule 'nothing' matches no layer"),
        ({"layers": {"nothing": 2}}, "the layer rule 'nothing' matches no layer"),
    ],
)
def test_what_can_not_be_spent_is_said_in_one_sentence(made: Small, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        Replanning(**{"budget": "2 bits", **options}).started(made.problem)
    assert sentence in str(refused.value)


def test_a_budget_needs_layer_constraints_one_plan_and_two_epochs(made: Small) -> None:
    replanning, net = Replanning("2 bits"), made.problem.net
    for without in (Lagrangian(net, F.cross_entropy, [OutputConstraint()]), TaskProblem(net, F.cross_entropy)):
        with pytest.raises(InputError, match="spent by the multipliers of layers: the problem has no layer constr"):
            replanning.started(without)
    with pytest.raises(InputError, match="a budget is for layers whose weights are quantised, and the plan to start"):
        replanning.started(small(bits="a8").problem)
    several = Lagrangian(prepare(models.build("preresnet-small", 1, 3, (1, 8, 8)), BATCHES[0][0], [2, 4]), F.mse_loss)
    with pytest.raises(InputError, match="the network has 2 plans, 2-bit, 4-bit; to spend a budget it must have one"):
        replanning.started(several)
    with pytest.raises(InputError, match="there must be an epoch before bits are chosen and one after"):
        replanning.epochs(1)


def test_a_tolerance_that_would_overshoot_at_the_fewest_bits_is_refused_at_the_start() -> None:
    made = small(bits=4, constraints=[OutputConstraint(), LayerConstraint(price=0.05)], duals=Ascent(0.1))
    with pytest.raises(InputError, match="would overshoot: tolerance / price x dual rate must be at most 1"):
        Replanning("2 bits").started(made.problem)


# In a training.


@pytest.mark.parametrize("quantizer", ["dorefa", "uniform", "lsq"])
def test_bits_are_chosen_at_the_given_epochs_and_the_training_ends_under_budget(quantizer: str) -> None:
    gradient = "straight-through" if quantizer == "lsq" else "norms"
    problem = residual(quantizer=quantizer, gradient=gradient)
    history = fitted(problem, two_or_four())
    plans = [entry["plan"] for entry in history.epochs]
    assert set(plans[0].values()) == {"1"}
    assert plans[3] == plans[2]
    for plan in plans[1:]:
        assert set(plan.values()) <= {"2", "4"}
        assert 2 <= average_bits(problem, plan) <= 2.5
    assert [("bits_chosen_by" in entry) for entry in history.epochs] == [False, True, True, False]
    summary = history.summary
    assert summary["plans"] == {"mixed": plans[3]}
    assert plans[summary["chosen_epoch"] - 1] == plans[3], "a model of an earlier plan is not the best"
    assert summary["chosen_epoch"] > 1
    assert summary["budget"] == {"limit": "2.5 bits", "used": f"{average_bits(problem, plans[3]):.4g} bits"}
    assert history.problem.net.plans["mixed"].as_text() == plans[3]
    assert "budget: " in str(history)
    assert list(problem.net.plans) == ["1-bit"], "the problem that was given keeps its plan"


def test_the_plan_is_the_one_that_the_state_before_it_asks_for(tmp_path: Path) -> None:
    replanning = two_or_four(at=(0.5,))
    with pytest.raises(KeyboardInterrupt):
        fitted(residual(), replanning, 2, out=tmp_path / "run", callbacks=[StopAfter(1)])
    checkpoint = load_checkpoint(tmp_path / "run" / "last.pt")
    problem = replanning.started(residual())
    problem.net.load_state_dict(checkpoint["model"])
    problem.duals.load_state_dict(
        {key.removeprefix("duals."): value for key, value in checkpoint["duals"].items() if key.startswith("duals.")}
    )
    replan = replanning.choose(problem, BATCHES[:1])
    history = fitted(residual(), replanning, 2, out=tmp_path / "run", resume=True)
    assert history.epochs[1]["bits_chosen_by"] == replan.by
    assert history.epochs[1]["plan"] == {layer: str(bits) for layer, bits in replan.solution.precisions.items()}


def test_without_any_multiplier_above_zero_distances_decide() -> None:
    history = fitted(residual(tolerance=1e6), two_or_four(at=(0.5,)), 2)
    assert {bound["multiplier"] for bound in history.epochs[0]["constraints"] if bound["kind"] == "layer"} == {0.0}
    assert [entry.get("bits_chosen_by") for entry in history.epochs] == [None, "distances"]


VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "nupi within the epoch, tied norms": ({"duals": NuPI(0.5, 0.3, 0.5), "tied_norms": True}, {"dual_every": 2}),
    "tuned tolerances, integer sums": ({"tolerance": 0.3, "price": 0.5, "integer_sums": True}, {}),
    "uniform, another optimizer": (
        {"quantizer": "uniform"},
        {
            "optimizer": lambda parameters: torch.optim.SGD(parameters, 0.01, momentum=0.9),
            "scheduler": lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        },
    ),
}


def after_epochs(path: Path) -> Path:
    """Where copies of a run folder are kept, as it was after each epoch."""
    return path.with_name(f"{path.name} after")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("undisturbed")
    runs = {}
    for number, (name, (options, settings)) in enumerate(VARIANTS.items()):
        path = folder / str(number)
        snapshots = [Snapshots(path, after_epochs(path))]
        fitted(residual(**options), two_or_four(), out=path, callbacks=snapshots, **settings)
        runs[name] = Run.open(path)
    return runs


@pytest.mark.parametrize(
    ("name", "epoch"), [*itertools.product(list(VARIANTS)[:3], [1, 2, 3]), ("uniform, another optimizer", 2)]
)
def test_a_stopped_and_continued_training_equals_an_undisturbed_one(
    undisturbed: dict[str, Run], tmp_path: Path, name: str, epoch: int
) -> None:
    options, settings = VARIANTS[name]
    folder = shutil.copytree(after_epochs(undisturbed[name].path) / str(epoch), tmp_path / "stopped")
    assert len(Run.open(folder).metrics()) == epoch
    fitted(residual(**options), two_or_four(), out=folder, resume=True, **settings)
    assert_same_run(undisturbed[name], Run.open(folder))


def test_the_optimizer_goes_on_under_another_plan(undisturbed: dict[str, Run]) -> None:
    run = undisturbed["plain"]
    plans = [entry["plan"] for entry in run.metrics()]
    assert plans[1] != plans[0]
    steps = {float(moments["step"]) for moments in load_checkpoint(run.last)["optimizer"]["state"].values()}
    assert steps == {4.0 * STEPS}
    assert load_checkpoint(run.best)["plan"] == plans[3]


def test_the_schedule_goes_on_under_another_plan(undisturbed: dict[str, Run]) -> None:
    rates = [entry["lr"] for entry in undisturbed["uniform, another optimizer"].metrics()]
    assert rates == pytest.approx([0.01, 0.005, 0.0025, 0.00125])


def test_a_checkpoint_with_another_models_plan_is_refused(undisturbed: dict[str, Run], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fitted(residual(), two_or_four(), out=tmp_path / "run", callbacks=[StopAfter(1)])
    run = Run.open(tmp_path / "run")
    save_checkpoint(run.last, {**load_checkpoint(undisturbed["plain"].last), "plan": {"conv9": "2"}})
    with pytest.raises(InputError, match="names the layer 'conv9', which the network was not prepared to quantise"):
        fitted(residual(), two_or_four(), out=run.path, resume=True)


def test_patience_waits_for_the_last_plan() -> None:
    never_better = Metric("never_better", lambda output, _: torch.zeros(len(output)))
    options = {"patience": 1, "metric": never_better}
    history = fitted(residual(), two_or_four(at=(0.2, 0.5)), 6, **options)
    assert len(history.epochs) in (4, 5), "epoch 4 is the first under the last plan, which may be the one before it"
    assert average_bits(residual(), history.summary["plans"]["mixed"]) <= 2.5
    assert len(fitted(residual(), None, 6, **options).epochs) == 2


def test_a_model_of_an_earlier_plan_is_never_the_best() -> None:
    scores = iter(range(100, 0, -1))
    falling = Metric("falling", lambda output, _: torch.full((len(output),), float(next(scores))))
    history = fitted(residual(), two_or_four(at=(0.5,)), 3, metric=falling)
    assert [set(entry["plan"].values()) == {"1"} for entry in history.epochs] == [True, True, False]
    assert history.summary["chosen_epoch"] == 3


def test_choosing_the_same_plan_again_keeps_the_best_epoch() -> None:
    scores = iter(range(100, 0, -1))
    falling = Metric("falling", lambda output, _: torch.full((len(output),), float(next(scores))))
    replanning = Replanning("2 bits", bits=[2, 3], at=(0.25, 0.5))
    history = fitted(residual(bits=2), replanning, metric=falling)
    assert {bits for entry in history.epochs for bits in entry["plan"].values()} == {"2"}, "no other plan fits"
    assert history.summary["chosen_epoch"] == 1


def test_the_output_keeps_its_tolerance_and_layers_get_that_of_their_bits() -> None:
    history = fitted(residual(bits=2), Replanning("1.5 bits", bits=[1, 2, 4], at=(0.5,)), 2)
    assert "1" in history.summary["plans"]["mixed"].values()
    for entry in history.epochs:
        tolerances = {bound["where"]: bound["tolerance"] for bound in entry["constraints"]}
        assert tolerances.pop("") == 0.3
        assert tolerances == pytest.approx(
            {layer: 1 / (2 ** int(bits) - 1) ** 2 for layer, bits in entry["plan"].items()}
        )


def test_an_optimizer_of_the_old_parameters_is_refused() -> None:
    problem = residual()
    optimizer = torch.optim.SGD(problem.net.parameters(), 0.1)
    with pytest.raises(InputError, match="give the optimizer as a function of parameters"):
        fitted(problem, two_or_four(), optimizer=optimizer)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile uses what torch advises against
def test_a_compiled_training_ends_with_the_numbers_of_an_eager_one() -> None:
    only = Replanning("2 bits", bits=[2, 3], at=(0.4, 0.7))  # no other plan than 2 bits everywhere fits
    eager, compiled = (_fitted_perceptron(only, flag) for flag in (False, True))
    assert compiled.summary["compiled"]
    for one, other in zip(eager.epochs, compiled.epochs, strict=True):
        assert one["plan"] == other["plan"]
        assert one["objective"] == pytest.approx(other["objective"], rel=1e-2)


def _fitted_perceptron(replanning: Replanning, compiled: bool) -> History:
    made = small(bits=1)
    batches = [made.first]
    options: dict[str, Any] = {"epochs": 3, "lr": 1e-4, "progress": False, "compile": compiled}
    return fit(made.problem, batches, validation=batches, replanning=replanning, **options)


def test_tolerances_tune_themselves_and_are_reported(undisturbed: dict[str, Run]) -> None:
    metrics = undisturbed["tuned tolerances, integer sums"].metrics()
    for entry in metrics:
        for bound in entry["constraints"]:
            if bound["kind"] == "layer":
                assert bound["tolerance"] == pytest.approx(0.3 * bound["multiplier"] / 0.5, rel=1e-5)
                assert bound["slack"] == pytest.approx(bound["distance"] - bound["tolerance"], abs=1e-6)
            else:
                assert bound["tolerance"] == 0.3
    assert max(bound["tolerance"] for bound in metrics[-1]["constraints"] if bound["kind"] == "layer") > 0
