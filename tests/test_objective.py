"""Whose task loss is minimised, what outputs are held to, and on how many samples: worked out from the views."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import (
    InputError,
    Lagrangian,
    LayerConstraint,
    LossConstraint,
    OutputConstraint,
    evaluate,
    fit,
    load,
    prepare,
    rank,
)
from pdqat.layers import Gradient, Network
from pdqat.layers.distances import Distance
from pdqat.layers.recorder import FEWEST_ROWS
from small_problems import Perceptron, drawn, labels

INPUTS, LABELS = drawn(40, 6), labels(40)
THROUGH: dict[str, Any] = {"gradient": "straight-through"}
TOLERANCE = 0.05


def net_of(bits: Any = 2, seed: int = 0) -> Network:
    torch.manual_seed(seed)
    return prepare(Perceptron(), INPUTS, bits, quantizer="dorefa")


def outputs(net: Network, inputs: Tensor = INPUTS) -> tuple[Tensor, Tensor]:
    full = net(inputs)
    with net.under("2-bit", Gradient.STRAIGHT_THROUGH):
        return full, net(inputs)


def divergence(one: Tensor, other: Tensor) -> Tensor:
    log_one, log_other = one.log_softmax(1), other.log_softmax(1)
    return (log_one.exp() * (log_one - log_other)).sum(1).mean()


def gradients(value: Tensor, net: Network) -> dict[str, Tensor]:
    names, parameters = zip(*net.named_parameters(), strict=True)
    found = torch.autograd.grad(value, parameters, allow_unused=True)
    return {name: torch.zeros(()) if part is None else part for name, part in zip(names, found, strict=True)}


def assert_same_gradients(value: Tensor, expected: Tensor, net: Network) -> None:
    ours, theirs = gradients(value, net), gradients(expected, net)
    for name, part in theirs.items():
        torch.testing.assert_close(ours[name], part, msg=name)
    assert any(part.abs().max() > 0 for name, part in theirs.items() if name.endswith("3.weight"))


def test_low_is_the_task_loss_of_low_precision_with_full_precision_to_stay_close_to() -> None:
    net = net_of()
    problem = Lagrangian(net, F.cross_entropy, [OutputConstraint("kl", TOLERANCE)], objective="low", **THROUGH).eval()
    problem.duals.multipliers.fill_(0.7)
    terms = problem.terms(INPUTS, LABELS)
    full, low = outputs(net)
    expected = F.cross_entropy(low, LABELS) + 0.7 * (divergence(full, low) - TOLERANCE)
    torch.testing.assert_close(problem.value(terms), expected)
    assert list(terms.outputs) == ["full", "2-bit"]
    assert_same_gradients(problem(INPUTS, LABELS), expected, net)


def test_multipliers_of_low_start_at_0_but_for_lessons_of_a_teacher() -> None:
    constraints = [OutputConstraint("kl"), LossConstraint(0.4)]
    starts = {
        taught: Lagrangian(net_of(), F.cross_entropy, constraints, objective="low", teacher=taught).duals.multipliers
        for taught in (None, Perceptron())
    }
    assert [start.tolist() for start in starts.values()] == [[0.0, 0.0], [1.0, 1.0]]


def test_low_sums_over_plans() -> None:
    net = net_of([1, 4])
    problem = Lagrangian(net, F.cross_entropy, [OutputConstraint()], objective="low", **THROUGH).eval()
    expected = torch.zeros(())
    for plan in net.plans:
        with net.under(plan):
            expected = expected + F.cross_entropy(net(INPUTS), LABELS)
    torch.testing.assert_close(problem.terms(INPUTS, LABELS).loss, expected)


def test_low_needs_a_gradient_through_rounding() -> None:
    with pytest.raises(InputError, match="'low' trains through rounding: it needs the gradient 'straight-through'"):
        Lagrangian(net_of(), F.cross_entropy, objective="low", gradient="norms")
    with pytest.raises(InputError, match="unknown objective 'both'; choose one of full, low"):
        Lagrangian(net_of(), F.cross_entropy, objective="both")


def test_the_task_loss_of_low_precision_is_bounded() -> None:
    net = net_of()
    problem = Lagrangian(net, F.cross_entropy, [LossConstraint(0.4)], objective="full", **THROUGH).eval()
    assert problem.duals.named() == {"2-bit/loss": torch.ones(1)}
    full, low = outputs(net)
    expected = F.cross_entropy(full, LABELS) + 1.0 * (F.cross_entropy(low, LABELS) - 0.4)
    torch.testing.assert_close(problem(INPUTS, LABELS), expected)
    assert_same_gradients(problem(INPUTS, LABELS), expected, net)
    measured = evaluate(problem, [(INPUTS, LABELS)])
    assert measured.constraints[0]["slack"] == pytest.approx(F.cross_entropy(low, LABELS).item() - 0.4)


@pytest.mark.parametrize("tolerance", [None, {"*": 0.1}, -0.1, float("inf"), True])
def test_a_bound_on_the_loss_is_one_number(tolerance: Any) -> None:
    with pytest.raises(InputError, match="tolerance"):
        LossConstraint(tolerance)


@pytest.mark.parametrize("objective", ["full", "low"])
def test_outputs_are_held_to_the_teachers(objective: str) -> None:
    net, teacher = net_of(), Perceptron().eval()
    before = copy.deepcopy(teacher.state_dict())
    problem = Lagrangian(
        net, F.cross_entropy, [OutputConstraint("kl", TOLERANCE)], objective=objective, teacher=teacher, **THROUGH
    ).eval()
    full, low = outputs(net)
    task = F.cross_entropy(low if objective == "low" else full, LABELS)
    expected = task + divergence(teacher(INPUTS).detach(), low) - TOLERANCE
    torch.testing.assert_close(problem(INPUTS, LABELS), expected)
    assert_same_gradients(problem(INPUTS, LABELS), expected, net)
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert all(torch.equal(before[key], value) for key, value in teacher.state_dict().items())
    assert len(list(problem.parameters())) == len(list(net.parameters())), "it is no part of what is trained"
    assert problem.under_plan(net.plans["2-bit"]).teacher is teacher


def test_a_teacher_is_in_evaluation_mode_and_goes_where_the_problem_goes() -> None:
    teacher = Perceptron().train()
    problem = Lagrangian(net_of(), F.cross_entropy, teacher=teacher)
    before = copy.deepcopy(teacher.state_dict())
    problem.train()(INPUTS, LABELS)
    assert all(torch.equal(before[key], value) for key, value in teacher.state_dict().items())
    problem.double()
    assert problem(INPUTS.double(), LABELS).dtype == torch.float64
    assert next(teacher.parameters()).dtype == torch.float64


def test_layers_are_not_ranked_by_full_precision_that_was_not_trained() -> None:
    problem = Lagrangian(net_of(), F.cross_entropy, objective="low", teacher=Perceptron(), **THROUGH)
    with pytest.raises(InputError, match="or held to a teacher, leaves the full-precision view untrained"):
        rank(problem, [(INPUTS, LABELS)], by="hessian")


def test_full_precision_is_not_computed_where_nothing_needs_it() -> None:
    problem = Lagrangian(net_of(), F.cross_entropy, objective="low", teacher=Perceptron().eval(), **THROUGH)
    assert list(problem.terms(INPUTS, LABELS).outputs) == ["2-bit"]
    history = fit(problem, [(INPUTS, LABELS)], validation=[(INPUTS, LABELS)], epochs=1, progress=False)
    assert list(history.scores) == ["2-bit"]


def test_a_teacher_is_given_again_when_a_run_is_opened(tmp_path: Path) -> None:
    teacher = Perceptron().eval()
    problem = Lagrangian(net_of(), F.cross_entropy, objective="low", teacher=teacher, view_sample=0.5, **THROUGH)
    batches = [(INPUTS, LABELS)]
    fit(problem, batches, validation=batches, epochs=1, progress=False, out=tmp_path / "run")
    with pytest.raises(InputError, match="held to the outputs of a teacher, Perceptron: give teacher= again"):
        load(tmp_path / "run", Perceptron())
    again = load(tmp_path / "run", Perceptron(), teacher=teacher)
    assert isinstance(again, Lagrangian)
    assert (again.objective, again.teacher, again.view_sample) == ("low", teacher, 0.5)
    assert evaluate(again, batches).constraints == evaluate(problem, batches).constraints
    with pytest.raises(InputError, match=r"the teacher is a trained torch.nn.Module, not 'run/best.pt'"):
        Lagrangian(net_of(), F.cross_entropy, teacher="run/best.pt")  # type: ignore[arg-type]


class Samples(nn.Module):
    """Remembers how many samples each forward had."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(len(x))
        y: Tensor = self.model(x)
        return y


@pytest.mark.parametrize(("objective", "seen"), [("full", [40, 20]), ("low", [20, 40])])
def test_the_view_that_is_not_the_objective_sees_a_part(objective: str, seen: list[int]) -> None:
    watched = Samples(Perceptron())
    net = prepare(watched, INPUTS, 2, quantizer="dorefa")
    problem = Lagrangian(net, F.cross_entropy, objective=objective, view_sample=0.5, **THROUGH)
    watched.seen.clear()
    problem.train()(INPUTS, LABELS)
    assert watched.seen == seen
    watched.seen.clear()
    problem.eval()(INPUTS, LABELS)
    assert watched.seen == [40, 40], "evaluation sees all"


@pytest.mark.parametrize("objective", ["full", "low"])
def test_a_sample_estimates_the_same_constraints(objective: str) -> None:
    """Norms apart, whose statistics are of the batch: here they have none."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 3))
    net = prepare(model, INPUTS, 2, quantizer="dorefa")
    constraints = [OutputConstraint("kl", TOLERANCE), LossConstraint(0.1), LayerConstraint("squared", 0.01)]
    problem = Lagrangian(net, F.cross_entropy, constraints, objective=objective, view_sample=0.5, **THROUGH)
    torch.manual_seed(7)
    whole = problem.eval().terms(INPUTS, LABELS).distances
    drawn_terms = [problem.train().terms(INPUTS, LABELS) for _ in range(400)]
    sampled = torch.stack([terms.distances.detach() for terms in drawn_terms])
    error = sampled.std(0) / len(sampled) ** 0.5
    assert torch.all((sampled.mean(0) - whole).abs() <= 5 * error + 1e-6)
    assert torch.all(sampled[:, :2].std(0) > 0)
    assert len({terms.loss.item() for terms in drawn_terms}) == 1, "the objective is of all samples"


def test_targets_go_with_their_samples() -> None:
    """A loss that only a sample with its own target makes 0."""
    inputs = torch.arange(40.0).view(40, 1).expand(40, 6).contiguous()

    def mismatch(output: Tensor, target: Tensor) -> Tensor:
        return (output[:, 0] - target).abs().mean()

    model = nn.Sequential(nn.Identity(), nn.Linear(6, 6), nn.Identity())
    net = prepare(model, inputs, 8, layers={"1": "8"}, quantizer="uniform")
    with torch.no_grad():
        target = net(inputs)[:, 0].clone()
    problem = Lagrangian(net, mismatch, [LossConstraint(0.0), OutputConstraint("squared")], view_sample=0.5, **THROUGH)
    torch.manual_seed(1)
    terms = problem.train().terms(inputs, target)
    assert terms.distances[0] < 0.05 * (target - target.roll(1)).abs().mean()


def test_a_small_batch_is_taken_whole() -> None:
    problem = Lagrangian(net_of(), F.cross_entropy, view_sample=0.1)
    assert len(problem.train().terms(INPUTS, LABELS).outputs["full"]) == FEWEST_ROWS
    assert len(problem.terms(INPUTS[:10], LABELS[:10]).outputs["full"]) == 10


def test_layers_are_compared_on_a_part_of_the_whole_batch() -> None:
    net = net_of()
    for objective, part in (("full", 1.0), ("low", 0.5)):
        problem = Lagrangian(
            *(net, F.cross_entropy, [LayerConstraint(Distance.SQUARED)]),
            **{"objective": objective, "layer_sample": 0.5, "view_sample": 0.5, **THROUGH},
        )
        assert problem._recorded_part == part, "of what the low-precision view reads: half of the batch, or all of it"
        problem.eval()
        assert problem._recorded_part == 1.0


@pytest.mark.parametrize("part", [0, 1.5, True, "half"])
def test_what_is_no_part_of_a_batch_is_refused(part: Any) -> None:
    with pytest.raises(InputError, match="view_sample is the part of a batch, above 0 and at most 1"):
        Lagrangian(net_of(), F.cross_entropy, view_sample=part)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's compiler
@pytest.mark.parametrize("objective", ["full", "low"])
def test_the_whole_of_it_compiles(objective: str) -> None:
    net = net_of()
    problem = Lagrangian(net, F.cross_entropy, objective=objective, view_sample=0.5, teacher=net_of(4, 1), **THROUGH)
    compiled = torch.compile(problem, fullgraph=True, dynamic=False)
    torch.manual_seed(3)
    assert torch.isfinite(compiled(INPUTS, LABELS))
    problem.eval()
    torch.testing.assert_close(compiled(INPUTS, LABELS), problem(INPUTS, LABELS))
