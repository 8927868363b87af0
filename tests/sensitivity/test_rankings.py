"""Each ranking against what it is defined as, on problems of any kind."""

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import (
    FULL,
    BitPlan,
    BlockConstraint,
    ChannelConstraint,
    InputError,
    Lagrangian,
    LayerConstraint,
    OutputConstraint,
    Precision,
    allocate,
    prepare,
)
from pdqat.constraints import OutputDistance
from pdqat.evaluation import evaluate
from pdqat.layers.interface import Interface
from pdqat.sensitivity import RANKINGS, rank
from pdqat.sensitivity.gradient import first_order
from pdqat.sensitivity.hessian import hutchinson
from pdqat.sensitivity.low_layers import low_layers, weight_errors
from pdqat.sensitivity.probe import candidate_distances
from pdqat.task import Problem
from small_problems import KINDS, Small, drawn, labels, same_state, set_multipliers, small, state, task_problem

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def given() -> dict[str, Small]:
    return {kind: small(kind) for kind in KINDS}


@every_kind
@pytest.mark.parametrize("name", RANKINGS)
def test_every_ranking_scores_every_layer_and_leaves_the_problem_as_it_was(
    given: dict[str, Small], kind: str, name: str
) -> None:
    problem, batches = given[kind].problem, given[kind].batches
    before = state(problem)
    scores = rank(problem, batches, by=name).scores
    assert sorted(scores) == sorted(low_layers(problem))
    assert len(scores) == 3
    assert all(math.isfinite(score) for score in scores.values())
    assert len(set(scores.values())) > 1
    assert same_state(state(problem), before)


def full_precision_copy(problem: Problem) -> nn.Module:
    """A plain module that computes what the full-precision view does."""
    return copy.deepcopy(problem.net).restore(bake=True).eval()


def weight_in(model: nn.Module, layer: str) -> Tensor:
    weight = model.get_submodule(layer).weight
    assert isinstance(weight, Tensor)
    return weight


def _called(model: nn.Module, inputs: Any) -> Any:
    args, kwargs = Interface.of(model, inputs).arguments(inputs)
    return model(*args, **kwargs)


@every_kind
def test_the_plain_copy_is_the_full_precision_view(given: dict[str, Small], kind: str) -> None:
    problem, (inputs, _) = given[kind].problem, given[kind].first
    with torch.no_grad():
        torch.testing.assert_close(
            _called(full_precision_copy(problem), inputs), problem.net.call(inputs), atol=1e-5, rtol=1e-4
        )


@every_kind
def test_multipliers_are_the_problems_own(given: dict[str, Small], kind: str) -> None:
    problem = given[kind].problem
    expected = {bound.where: float(problem.duals.named()[bound.name]) for bound in problem.bounds[1:]}
    assert len(set(expected.values())) == 3
    assert RANKINGS["dual"](problem, []) == expected


class Chain(nn.Module):
    """Without norms, so that a view has no statistics of its own; one layer is called by the name of its argument."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.d(torch.sigmoid(self.c(torch.sigmoid(self.b(input=torch.sigmoid(self.a(x)))))))
        return y


def chain() -> tuple[Lagrangian, Chain, Tensor]:
    """A problem with a plain copy of its model."""
    torch.manual_seed(0)
    model, x = Chain(), drawn(40, 6)
    plain = copy.deepcopy(model)
    problem = Lagrangian(prepare(model, x, 2, quantizer="dorefa"), F.cross_entropy)
    set_multipliers(problem)
    return problem.eval(), plain, x


@torch.no_grad()
def divergence(plain: Chain, x: Tensor, low: list[str]) -> float:
    """Of the outputs of the same model with these layers in low precision and in full."""
    plan = BitPlan("some", {layer: Precision(2, 2) if layer in low else FULL for layer in ("b", "c")})
    net = prepare(copy.deepcopy(plain), x, plan, quantizer="dorefa")
    with net.under("some"):
        under_plan = net(x)
    return float(OutputDistance.KL.between(net(x), under_plan))


def test_only_low_is_how_far_one_layer_in_low_precision_moves_the_output() -> None:
    problem, plain, x = chain()
    batches = [(x[:30], labels(30)), (x[30:], labels(10))]
    expected = {layer: (30 * _of(plain, x[:30], layer) + 10 * _of(plain, x[30:], layer)) / 40 for layer in ("b", "c")}
    assert RANKINGS["only-low"](problem, batches) == pytest.approx(expected, rel=1e-3)


def _of(plain: Chain, x: Tensor, layer: str) -> float:
    return divergence(plain, x, [layer])


def test_only_high_is_how_much_nearer_the_output_comes_with_one_layer_in_full_precision() -> None:
    problem, plain, x = chain()
    both = divergence(plain, x, ["b", "c"])
    expected = {"b": both - divergence(plain, x, ["c"]), "c": both - divergence(plain, x, ["b"])}
    assert RANKINGS["only-high"](problem, [(x, labels(40))]) == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("name", ["only-low", "only-high"])
def test_outputs_that_are_no_classes_are_compared_by_their_squares(name: str) -> None:
    """Also where no output constraint says so: the divergence of a single number would be 0 for every layer."""
    said, unsaid = (small("regression", constraints=constraints) for constraints in _OF_REGRESSION)
    scores = RANKINGS[name](unsaid.problem, list(unsaid.batches))
    assert scores == RANKINGS[name](said.problem, list(said.batches))
    assert any(score != 0 for score in scores.values())


_OF_REGRESSION = ([OutputConstraint("squared"), LayerConstraint()], [LayerConstraint()])


def test_first_order_is_the_derivative_of_the_loss_along_the_error() -> None:
    torch.manual_seed(0)
    x, y = drawn(40, 6).double(), labels(40)
    problem = Lagrangian(prepare(Chain().double(), x, 2), F.cross_entropy).eval()
    model, step = full_precision_copy(problem), 1e-5
    scores = first_order(problem, [(x, y)])
    for name, error in weight_errors(problem).items():
        weight, losses = weight_in(model, name), []
        with torch.no_grad():
            for sign in (1, -1):
                weight.add_(sign * step * error)
                losses.append(float(F.cross_entropy(model(x), y)))
                weight.sub_(sign * step * error)
        assert scores[name] == pytest.approx(abs(losses[0] - losses[1]) / (2 * step), rel=1e-4)


def test_hutchinson_is_exact_for_a_diagonal_hessian_and_near_for_others() -> None:
    one, other = (torch.linspace(-1, 1, size).requires_grad_() for size in (5, 4))
    diagonal = torch.tensor([1.0, 2.0, 3.0, -1.0, 0.5])
    full = torch.full((4, 4), 0.3) + torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    loss = 0.5 * (diagonal * one.square()).sum() + 0.5 * other @ full @ other + 0.2 * one.sum() * other.sum()
    traces = hutchinson(loss, [one, other], 500, torch.Generator().manual_seed(0))
    # five standard deviations of the mean, sqrt(sum of squares beside the diagonal blocks' diagonals / draws)
    assert float(traces[0]) == pytest.approx(5.5, abs=5 * math.sqrt(20 * 0.2**2 / 500))
    assert float(traces[1]) == pytest.approx(11.2, abs=5 * math.sqrt((2 * 12 * 0.3**2 + 20 * 0.2**2) / 500))
    alone = hutchinson(0.5 * (diagonal * one.square()).sum(), [one], 1, torch.Generator().manual_seed(1))
    assert float(alone[0]) == pytest.approx(5.5)


def test_hessian_is_the_trace_by_parameter_times_the_squared_error() -> None:
    """Against the whole Hessian, which a net without curvature beside the loss has block by block."""
    torch.manual_seed(0)
    x, y = drawn(30, 4), drawn(30, 4, seed=2)
    problem = Lagrangian(prepare(nn.Sequential(*(nn.Linear(4, 4) for _ in range(3))), x, 2), F.mse_loss).eval()
    model = full_precision_copy(problem)
    weight = weight_in(model, "1")

    def loss(candidate: Tensor) -> Tensor:
        hidden = F.linear(model.get_submodule("0")(x), candidate, model.get_submodule("1").bias)  # type: ignore[arg-type]
        return F.mse_loss(model.get_submodule("2")(hidden), y)

    hessian = torch.autograd.functional.hessian(loss, weight.detach())  # type: ignore[no-untyped-call]
    hessian = hessian.reshape(16, 16)
    exact = float(hessian.trace()) / 16
    spread = float((hessian - torch.diag(hessian.diagonal())).square().sum() * 2 / 10) ** 0.5 / 16
    square = float(weight_errors(problem)["1"].square().sum())
    assert RANKINGS["hessian"](problem, [(x, y)])["1"] == pytest.approx(exact * square, abs=5 * spread * square)


def test_a_ranking_comes_with_the_evidence_of_the_constraints() -> None:
    made = small()
    entries = evaluate(made.problem, made.batches).constraints
    history = [
        {"constraints": [{**entry, "multiplier": entry["multiplier"] * part} for entry in entries]}
        for part in (0.1, 0.5, 0.8, 1.0)
    ]
    ranking = rank(made.problem, made.batches, history=history)
    scores = [layer.score for layer in ranking.layers]
    assert scores == sorted(scores, reverse=True)
    known = {entry["where"]: entry for entry in entries}
    for layer in ranking.layers:
        entry = known[layer.layer]
        assert layer.score == layer.multiplier == entry["multiplier"]
        assert (layer.distance, layer.slack, layer.tolerance) == (entry["distance"], entry["slack"], entry["tolerance"])
        assert layer.off == pytest.approx(abs(entry["slack"]) / entry["tolerance"])
        assert layer.change == pytest.approx(0.5), "over the last two epochs"
        assert layer.precision == "2"


def test_a_multiplier_of_zero_is_off_only_if_its_bound_is_broken() -> None:
    made = small(constraints=[OutputConstraint(), LayerConstraint("relative", {"3": 1e-6, "*": 1e6})])
    made.problem.duals.multipliers.zero_()
    ranking = {layer.layer: layer for layer in rank(made.problem, made.batches).layers}
    assert ranking["6"].off == ranking["9"].off == 0
    broken = ranking["3"]
    assert broken.slack is not None
    assert broken.off == pytest.approx(broken.slack / 1e-6)
    assert broken.change is None, "without a history nothing is known of it"


def test_only_so_many_samples_are_looked_at() -> None:
    made = small()
    inputs, target = made.first
    few = rank(made.problem, [(inputs[:5], target[:5])], by="distance").scores
    assert rank(made.problem, made.batches, by="distance", samples=5).scores == pytest.approx(few)


def test_batches_that_end_after_one_pass_are_enough() -> None:
    made = small()
    once = (batch for batch in made.batches)
    assert rank(made.problem, once, by="gradient").scores == rank(made.problem, made.batches, by="gradient").scores


def test_a_layer_without_a_bound_has_the_multiplier_of_the_smallest_block_around_it() -> None:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), nn.Linear(6, 6))
    model = nn.Sequential(nn.Linear(4, 6), block, nn.Linear(6, 6), nn.Linear(6, 2))
    net = prepare(model, torch.rand(8, 4), bits=4)
    batches = [(torch.rand(8, 4), torch.arange(8) % 2)]
    blocks = BlockConstraint(blocks=["1", "1.1"])
    problem = Lagrangian(net, F.cross_entropy, [OutputConstraint(), blocks])
    problem.duals.multipliers.copy_(torch.tensor([1.0, 0.25, 0.5]))
    assert rank(problem, batches).scores == {"1.1.0": 0.5, "1.1.1": 0.5, "1.0": 0.25, "1.2": 0.25}
    plan = allocate(problem, batches, "4 bits", bits=[2, 4, 8], by="dual")
    assert plan.precisions["2"] == Precision(4, 4), "a layer outside of all blocks has no price, and stays as it is"
    assert plan.offer.prices["1.1.0"].within == pytest.approx(0.5)
    for layer, distance in candidate_distances(problem, batches, [Precision(4, 4)]).items():
        if layer != "2":
            assert plan.offer.prices[layer].held == pytest.approx(distance[Precision(4, 4)])


def test_a_problem_without_layer_constraints_has_no_multipliers() -> None:
    problem, batches = task_problem(), small().batches
    channels = small(constraints=[OutputConstraint(), ChannelConstraint()]).problem
    for without in (problem, channels):
        with pytest.raises(InputError, match="has no layer multipliers: train with layer constraints"):
            rank(without, batches)
    ranking = rank(problem, batches, by="distance")
    assert sorted(ranking.scores) == ["3", "6", "9"]
    assert {layer.multiplier for layer in ranking.layers} == {None}
    for name in ("hessian", "gradient", "only-low", "only-high"):
        with pytest.raises(InputError, match="leaves the full-precision view untrained"):
            rank(problem, batches, by=name)


@pytest.mark.parametrize("name", RANKINGS)
def test_a_problem_in_full_precision_or_with_several_plans_has_no_ranking(name: str) -> None:
    batches = small().batches
    with pytest.raises(InputError, match="trains full precision only; its layers have no low precision to rank"):
        rank(task_problem(low=False), batches, by=name)
    several = Lagrangian(prepare(Chain(), drawn(8, 6), [2, 4]), F.cross_entropy)
    with pytest.raises(InputError, match="the network has 2 plans, 2-bit, 4-bit; to rank its layers it must have one"):
        rank(several, [(drawn(8, 6), labels(8))], by=name)


def test_what_can_not_be_ranked_by_is_said_in_one_sentence() -> None:
    made = small()
    inputs, target = made.first
    with pytest.raises(InputError, match="unknown ranking 'taste'; choose one of dual, hessian"):
        rank(made.problem, made.batches, by="taste")
    with pytest.raises(InputError, match="there is no sample to judge layers by: the batches are empty"):
        rank(made.problem, [])
    with pytest.raises(InputError, match="samples must be a whole number from 1 upwards, not 'all'"):
        rank(made.problem, made.batches, samples="all")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"batches must be an iterable of \(inputs, target\)"):
        rank(made.problem, 5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"history is a list of epochs, such as history.epochs, not a int"):
        rank(made.problem, made.batches, history=5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="samples must be a whole number from 1 upwards, not 0"):
        rank(made.problem, made.batches, samples=0)
    with pytest.raises(InputError, match="a batch must be a pair of inputs and target, not a Tensor"):
        rank(made.problem, [inputs])
    with pytest.raises(InputError, match="a batch must be a pair of inputs and target, not a tuple of 3"):
        rank(made.problem, [(inputs, target, target)])


class Body(nn.Module):
    """Two layers between the ends, one of them computed without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.frozen, self.hidden, self.head = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = torch.tanh(self.frozen(self.stem(x)))
        y: Tensor = self.head(torch.tanh(self.hidden(x)))
        return y


@pytest.mark.parametrize("by", ["gradient", "hessian"])
def test_a_layer_without_gradients_does_not_move_the_loss(by: str) -> None:
    x, y = drawn(16, 4), labels(16)
    scores = rank(Lagrangian(prepare(Body(), x, bits=2), F.cross_entropy), [(x, y)], by=by).scores
    assert scores["frozen"] == 0
    assert scores["hidden"] != 0


def test_a_function_without_second_derivatives_is_named() -> None:
    x, y = drawn(16, 4), labels(16)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Hardsigmoid(), nn.Linear(4, 3))
    problem = Lagrangian(prepare(model, x, bits=2), F.cross_entropy)
    with pytest.raises(InputError, match=r"second derivatives.*hardsigmoid.*choose another ranking"):
        rank(problem, [(x, y)], by="hessian")
