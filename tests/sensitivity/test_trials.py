"""The loss of a layer's candidates, against the same network prepared with those bits."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import Lagrangian, TaskProblem, allocate, prepare
from pdqat.allocation.offer import offer
from pdqat.precision import FULL, BitPlan, Precision
from pdqat.sensitivity import RANKINGS
from pdqat.sensitivity.low_layers import plan_of
from pdqat.sensitivity.trials import candidate_losses, loss_under

BITS = [Precision(bits, bits) for bits in (1, 2, 4)]


class Chain(nn.Sequential):
    """Without norms, so that nothing is estimated."""

    def __init__(self) -> None:
        super().__init__()
        for name, (inputs, outputs) in zip("abcd", ((6, 8), (8, 8), (8, 8), (8, 3)), strict=True):
            self.add_module(name, nn.Linear(inputs, outputs))
            self.add_module(f"{name}_after", nn.Sigmoid())


def made() -> tuple[Lagrangian, Chain, Tensor, Tensor]:
    torch.manual_seed(0)
    model, x, y = Chain(), torch.rand(40, 6), torch.arange(40) % 3
    problem = Lagrangian(prepare(copy.deepcopy(model), x, 2, quantizer="dorefa"), F.cross_entropy)
    return problem.eval(), model, x, y


@torch.no_grad()
def loss_of(model: Chain, x: Tensor, y: Tensor, **precisions: Precision) -> float:
    net = prepare(copy.deepcopy(model), x, BitPlan("some", precisions), quantizer="dorefa").eval()
    with net.under("some"):
        return float(F.cross_entropy(net(x), y))


def test_each_candidate_is_measured_with_all_others_as_they_are() -> None:
    problem, model, x, y = made()
    batches, two = [(x[:30], y[:30]), (x[30:], y[30:])], Precision(2, 2)
    as_it_is, losses = candidate_losses(problem, batches, plan_of(problem), {"b": BITS, "c": BITS})
    assert as_it_is == pytest.approx(loss_of(model, x, y, b=two, c=two), rel=1e-5)
    for bits in BITS:
        assert losses["b"][bits] == pytest.approx(loss_of(model, x, y, b=bits, c=two), rel=1e-5)
        assert losses["c"][bits] == pytest.approx(loss_of(model, x, y, b=two, c=bits), rel=1e-5)


def test_it_tells_which_layer_it_is_at() -> None:
    problem, _, x, y = made()
    told: list[tuple[int, int]] = []
    choices = {"b": BITS, "c": BITS}
    candidate_losses(problem, [(x, y)], plan_of(problem), choices, lambda done, total: told.append((done, total)))
    assert told == [(0, 2), (1, 2)]


def test_costs_are_what_the_loss_is_above_the_layers_least() -> None:
    problem, _, x, y = made()
    choices = {"b": BITS, "c": BITS}
    _, losses = candidate_losses(problem, [(x, y)], plan_of(problem), choices)
    costs = offer(problem, [(x, y)], bits=BITS).costs
    for layer in choices:
        assert min(costs[layer].values()) == 0
        for bits in BITS[1:]:
            changed = losses[layer][bits] - losses[layer][BITS[0]]
            assert costs[layer][bits] - costs[layer][BITS[0]] == pytest.approx(changed, abs=1e-7)


def test_the_score_is_what_full_precision_of_the_layer_alone_saves() -> None:
    problem, model, x, y = made()
    two = Precision(2, 2)
    as_it_is = loss_of(model, x, y, b=two, c=two)
    expected = {
        "b": as_it_is - loss_of(model, x, y, b=FULL, c=two),
        "c": as_it_is - loss_of(model, x, y, b=two, c=FULL),
    }
    assert RANKINGS["loss"](problem, [(x, y)]) == pytest.approx(expected, abs=1e-6)


def test_a_run_whose_full_precision_was_not_trained_is_planned_too() -> None:
    problem, _, x, y = made()
    straight = TaskProblem(problem.net, F.cross_entropy, low=True)
    assert set(allocate(straight, [(x, y)], "3 bits").precisions) == {"b", "c"}


def test_norms_are_estimated_for_the_plan_that_is_measured() -> None:
    """A layer in full precision behind which statistics are off would look worse than it is."""
    torch.manual_seed(0)
    layers = [nn.Linear(6, 8), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8), nn.Linear(8, 3)]
    x, y = torch.rand(64, 6), torch.arange(64) % 3
    problem = Lagrangian(prepare(nn.Sequential(*layers), x, 2), F.cross_entropy).eval()
    plan = BitPlan("2-bit", {"1": FULL})
    net = problem.under_plan(plan).net.train()
    with torch.no_grad(), net.under("2-bit"):
        expected = float(F.cross_entropy(net(x), y))  # by the batch's own statistics
    assert loss_under(problem, plan, [(x, y)]) == pytest.approx(expected, rel=0.02)


def test_with_its_only_layer_in_full_precision_a_network_is_its_full_precision_view() -> None:
    torch.manual_seed(0)
    x, y = torch.rand(16, 6), torch.arange(16) % 3
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3))
    problem = Lagrangian(prepare(model, x, 2), F.cross_entropy).eval()
    with torch.no_grad():
        expected = float(F.cross_entropy(problem.net(x), y))
    assert loss_under(problem, BitPlan("2-bit", {"1": FULL}), [(x, y)]) == pytest.approx(expected)
