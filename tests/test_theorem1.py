"""Theorem 1: the optimal multiplier is minus the derivative of the optimal value by the tolerance.

One scalar weight w is quantised to the nearest whole number g = round(w), full precision is w itself:

    P*(tolerance) = min (w - a)^2    subject to    E[z^2] (w - g)^2 <= tolerance

For a within half a unit of g the constraint holds w back from a at w = g + sqrt(tolerance / E[z^2]), so that

    P* = (a - g - sqrt(tolerance / E[z^2]))^2      and      P* = 0 where the tolerance lets w reach a
"""

import math

import pytest
import torch
from torch import Tensor, nn

from pdqat import Lagrangian, LayerConstraint, Network, OutputConstraint, prepare
from pdqat.constraints import Requirement
from pdqat.quantizers import DoReFaActivation, Grid, Quantizer, Scheme


class WholeNumbers(Quantizer):
    """Weights on the whole numbers, whatever the bits."""

    def full(self, tensor: Tensor) -> Tensor:
        return tensor

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        one = tensor.new_ones(())
        return Grid(torch.round(tensor), one, torch.zeros_like(one))

    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        return tensor


class SideBySide(nn.Module):
    """Column i of the input times weight i."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([layer(x[:, i : i + 1]) for i, layer in enumerate(self.weights)], 1)


Z = torch.tensor([[0.5], [-1.5], [1.0], [-2.0], [0.25]], dtype=torch.float64)
ENERGY = (0.25 + 2.25 + 1.0 + 4.0 + 0.0625) / 5
GOAL, NEAREST = 2.4, 2.0


def optimal_value(tolerance: float) -> float:
    return max(GOAL - NEAREST - math.sqrt(tolerance / ENERGY), 0) ** 2


def sensitivity(tolerance: float) -> float:
    """-dP*/d tolerance, by a central difference of the closed form."""
    step = 1e-6 * tolerance
    return (optimal_value(tolerance - step) - optimal_value(tolerance + step)) / (2 * step)


def squared_to_goal(output: Tensor, goal: Tensor) -> Tensor:
    """(w - a)^2, from w z and a z."""
    return ((output - goal) ** 2).mean() / ENERGY


def prepared(starts: list[float]) -> Network:
    model = SideBySide(len(starts)).double()
    for parameter, start in zip(model.parameters(), starts, strict=True):
        nn.init.constant_(parameter, start)
    scheme = Scheme(WholeNumbers, DoReFaActivation)
    return prepare(model, Z.expand(-1, len(starts)), "w8", layers={"*": "w8"}, quantizer=scheme)


def solve(lagrangian: Lagrangian, goal: Tensor, steps: int = 40) -> None:
    """Algorithm 1 with full batches: primal descent, then a dual step on fresh slacks."""
    inputs = Z.expand(-1, goal.shape[1])
    parameters = list(lagrangian.net.parameters())
    for _ in range(steps):
        for _ in range(8):
            curvature = 2 * (1 + lagrangian.duals.multipliers.max().item() * ENERGY)
            value = lagrangian.value(lagrangian.terms(inputs, goal))
            with torch.no_grad():
                for parameter, gradient in zip(parameters, torch.autograd.grad(value, parameters), strict=True):
                    parameter.sub_(gradient / curvature)
        lagrangian.accumulate(lagrangian.terms(inputs, goal))
        lagrangian.dual_step()


@pytest.mark.parametrize("requirement", [LayerConstraint, OutputConstraint])
@pytest.mark.parametrize("tolerance", [0.02, 0.05, 0.12])
def test_multiplier_is_the_price_of_the_tolerance(requirement: type[Requirement], tolerance: float) -> None:
    constraint = requirement("squared", tolerance)  # type: ignore[call-arg]
    price = sensitivity(tolerance)
    lagrangian = Lagrangian(prepared([2.3]), squared_to_goal, [constraint], dual_rate=0.5 / tolerance)
    solve(lagrangian, GOAL * Z)
    assert price > 0.2
    assert lagrangian.duals.multipliers.item() == pytest.approx(price, rel=0.02)
    weight = next(lagrangian.net.parameters()).item()
    assert weight == pytest.approx(NEAREST + math.sqrt(tolerance / ENERGY), rel=0.01)
    assert lagrangian.terms(Z, GOAL * Z).loss.item() == pytest.approx(optimal_value(tolerance), rel=0.05)


@pytest.mark.parametrize("requirement", [LayerConstraint, OutputConstraint])
def test_a_slack_constraint_has_no_price(requirement: type[Requirement]) -> None:
    tolerance = 1.2 * ENERGY * (GOAL - NEAREST) ** 2
    constraint = requirement("squared", tolerance)  # type: ignore[call-arg]
    lagrangian = Lagrangian(prepared([2.1]), squared_to_goal, [constraint], dual_rate=1.0)
    lagrangian.duals.multipliers.fill_(0.7)
    solve(lagrangian, GOAL * Z)
    assert sensitivity(tolerance) == 0
    assert lagrangian.duals.multipliers.item() == 0
    assert next(lagrangian.net.parameters()).item() == pytest.approx(GOAL)


def test_each_layer_has_its_own_price() -> None:
    """Three weights in one problem: two tolerances that bind differently and one that does not."""
    tolerances = {"weights.0": 0.03, "weights.1": 0.08, "weights.2": 2.0}
    lagrangian = Lagrangian(
        prepared([2.3, 2.3, 2.3]),
        lambda output, goal: 3 * squared_to_goal(output, goal),  # a sum over the three
        [LayerConstraint("squared", tolerances)],
        dual_rate=10.0,
    )
    solve(lagrangian, GOAL * Z.expand(-1, 3))
    prices = lagrangian.duals.multipliers.tolist()
    assert prices[:2] == [pytest.approx(sensitivity(tolerance), rel=0.02) for tolerance in (0.03, 0.08)]
    assert prices[2] == 0
