"""Theorem 1: the optimal multiplier is minus the derivative of the optimal value by the tolerance.

One scalar weight w is quantised to the nearest whole number g = round(w), full precision is w itself:

    P*(tolerance) = min (w - a)^2    subject to    E[z^2] (w - g)^2 <= tolerance

For a within half a unit of g the constraint holds w back from a at w = g + sqrt(tolerance / E[z^2]), so that

    P* = (a - g - sqrt(tolerance / E[z^2]))^2      and      P* = 0 where the tolerance lets w reach a
"""

import math

import pytest

from pdqat import Ascent, Constraint, Lagrangian, LayerConstraint, OutputConstraint
from scalar_problem import ENERGY, GOAL, NEAREST, Z, prepared, solve, squared_to_goal


def optimal_value(tolerance: float) -> float:
    return max(GOAL - NEAREST - math.sqrt(tolerance / ENERGY), 0) ** 2


def sensitivity(tolerance: float) -> float:
    """-dP*/d tolerance, by a central difference of the closed form."""
    step = 1e-6 * tolerance
    return (optimal_value(tolerance - step) - optimal_value(tolerance + step)) / (2 * step)


@pytest.mark.parametrize("kind", [LayerConstraint, OutputConstraint])
@pytest.mark.parametrize("tolerance", [0.02, 0.05, 0.12])
def test_multiplier_is_the_price_of_the_tolerance(kind: type[Constraint], tolerance: float) -> None:
    constraint = kind("squared", tolerance)  # type: ignore[call-arg]
    price = sensitivity(tolerance)
    lagrangian = Lagrangian(
        prepared([2.3]), squared_to_goal, [constraint], duals=Ascent(0.5 / tolerance), gradient="norms"
    )
    solve(lagrangian, GOAL * Z)
    assert price > 0.2
    assert lagrangian.duals.multipliers.item() == pytest.approx(price, rel=0.02)
    weight = next(lagrangian.net.parameters()).item()
    assert weight == pytest.approx(NEAREST + math.sqrt(tolerance / ENERGY), rel=0.01)
    assert lagrangian.terms(Z, GOAL * Z).loss.item() == pytest.approx(optimal_value(tolerance), rel=0.05)


@pytest.mark.parametrize("kind", [LayerConstraint, OutputConstraint])
def test_a_slack_constraint_has_no_price(kind: type[Constraint]) -> None:
    tolerance = 1.2 * ENERGY * (GOAL - NEAREST) ** 2
    constraint = kind("squared", tolerance)  # type: ignore[call-arg]
    lagrangian = Lagrangian(prepared([2.1]), squared_to_goal, [constraint], duals=Ascent(1.0), objective="full")
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
        duals=Ascent(10.0),
        objective="full",
    )
    solve(lagrangian, GOAL * Z.expand(-1, 3))
    prices = lagrangian.duals.multipliers.tolist()
    assert prices[:2] == [pytest.approx(sensitivity(tolerance), rel=0.02) for tolerance in (0.03, 0.08)]
    assert prices[2] == 0
