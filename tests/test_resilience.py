"""Tolerances that tune themselves, on the problem of `test_theorem1` with the tolerance t as a variable:

    minimise (w - a)^2 + price t^2 / (2 tolerance)    subject to    E[z^2] (w - g)^2 <= t

With x = w - g the constraint binds at t = E[z^2] x^2, so the optimum is the root of

    (a - g) - x = price E[z^2]^2 x^3 / tolerance      and the multiplier is price t / tolerance.
"""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from pdqat import (
    Ascent,
    ChannelConstraint,
    Constraint,
    InputError,
    Lagrangian,
    LayerConstraint,
    Multiplicative,
    NuPI,
    OutputConstraint,
)
from scalar_problem import ENERGY, GOAL, NEAREST, Z, prepared, solve, squared_to_goal


def optimum(tolerance: float, price: float, worth: float = 1.0) -> tuple[float, float, float]:
    """Weight, tolerance and multiplier in closed form; the task loss counts `worth` times."""
    roots = np.roots([price * ENERGY**2 / tolerance, 0, worth, -worth * (GOAL - NEAREST)])
    x = next(root.real for root in roots if abs(root.imag) < 1e-9)
    tuned = ENERGY * x**2
    return NEAREST + x, tuned, price * tuned / tolerance


@pytest.mark.parametrize("kind", [LayerConstraint, OutputConstraint])
@pytest.mark.parametrize(("tolerance", "price"), [(0.05, 1.0), (0.05, 0.2), (0.05, 5.0), (0.2, 1.0), (0.01, 0.1)])
def test_tolerance_settles_where_its_multiplier_is_the_marginal_cost(
    kind: type[Constraint], tolerance: float, price: float
) -> None:
    constraint = kind("squared", tolerance, price)  # type: ignore[call-arg]
    lagrangian = Lagrangian(
        prepared([2.3]), squared_to_goal, [constraint], duals=Ascent(0.5 * price / tolerance), gradient="norms"
    )
    solve(lagrangian, GOAL * Z, steps=60)
    weight, tuned, multiplier = optimum(tolerance, price)
    assert lagrangian.tolerances.item() == pytest.approx(tuned, rel=1e-3)
    assert lagrangian.duals.multipliers.item() == pytest.approx(multiplier, rel=1e-3)
    assert next(lagrangian.net.parameters()).item() == pytest.approx(weight, rel=1e-3)
    terms = lagrangian.terms(Z, GOAL * Z)
    assert terms.distances.item() == pytest.approx(tuned, rel=1e-2)  # the constraint binds
    cost = price * tuned**2 / (2 * tolerance)
    assert lagrangian.value(terms).item() == pytest.approx(terms.loss.item() + cost, rel=1e-3)


def test_relaxes_where_expensive_and_tightens_where_free() -> None:
    """Three layers, whose agreement costs the task 100, 1 and nothing, from one tolerance."""
    worth = torch.tensor([100.0, 1.0, 0.0], dtype=torch.float64)
    tolerance, price = 0.05, 1.0

    def weighted(output: Tensor, goal: Tensor) -> Tensor:
        return (worth * (output - goal) ** 2).mean(0).sum() / ENERGY

    lagrangian = Lagrangian(
        *(prepared([2.3, 2.3, 2.3]), weighted, [LayerConstraint("squared", tolerance, price)]),
        duals=Ascent(10.0),
        objective="full",
    )
    _solve_weighted(lagrangian, worth)
    tuned = lagrangian.tolerances.tolist()
    assert tuned[:2] == [pytest.approx(optimum(tolerance, price, count)[1], rel=0.02) for count in (100.0, 1.0)]
    assert tuned[0] > tolerance > tuned[2]
    assert tuned[2] == pytest.approx(0, abs=1e-3)


def _solve_weighted(lagrangian: Lagrangian, worth: Tensor) -> None:
    inputs, goal = Z.expand(-1, 3), GOAL * Z.expand(-1, 3)
    parameters = list(lagrangian.net.parameters())
    for _ in range(60):
        for _ in range(8):
            curvature = 2 * (worth + lagrangian.duals.multipliers * ENERGY).clamp_min(0.01)
            gradients = torch.autograd.grad(lagrangian.value(lagrangian.terms(inputs, goal)), parameters)
            with torch.no_grad():
                for parameter, gradient, steepest in zip(parameters, gradients, curvature, strict=True):
                    parameter.sub_(gradient / steepest)
        lagrangian.accumulate(lagrangian.terms(inputs, goal))
        lagrangian.dual_step()


def test_value_has_the_gradient_that_ascent_follows() -> None:
    """d value / d multiplier is the slack, although the tolerance moves with the multiplier."""
    constraints: Sequence[Constraint] = [LayerConstraint("squared", 0.05, price=0.4), OutputConstraint("squared", 0.3)]
    lagrangian = Lagrangian(prepared([2.3]), squared_to_goal, constraints)
    lagrangian.duals.multipliers.copy_(torch.tensor([0.3, 0.7])).requires_grad_()
    terms = lagrangian.terms(Z, GOAL * Z)
    (gradient,) = torch.autograd.grad(lagrangian.value(terms), lagrangian.duals.multipliers)
    torch.testing.assert_close(gradient, terms.distances - lagrangian.tolerances)
    torch.testing.assert_close(lagrangian.tolerances[0], torch.tensor(0.05 * 0.3 / 0.4, dtype=torch.float64))
    torch.testing.assert_close(lagrangian.tolerances[1], torch.tensor(0.3, dtype=torch.float64))


def test_each_channel_tunes_its_own() -> None:
    lagrangian = Lagrangian(prepared([2.3, 2.3]), squared_to_goal, [ChannelConstraint("squared", 0.05, price=0.1)])
    lagrangian.duals.multipliers.copy_(torch.tensor([0.1, 0.02]))
    torch.testing.assert_close(lagrangian.tolerances, torch.tensor([0.05, 0.01], dtype=torch.float64))


@pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf"), True])
@pytest.mark.parametrize("kind", [LayerConstraint, OutputConstraint])
def test_refuses_a_price_that_is_none(kind: type[Constraint], price: float) -> None:
    with pytest.raises(InputError, match=f"the price of a tolerance must be a number above zero, not {price}"):
        kind("squared", 0.1, price)  # type: ignore[call-arg]


def test_refuses_what_can_not_tune_itself() -> None:
    with pytest.raises(InputError, match=r"the tolerance of w8/layer/weights.0 is 0 and can't tune itself"):
        Lagrangian(prepared([2.3]), squared_to_goal, [LayerConstraint("squared", 0.0, price=1.0)])


def test_refuses_a_dual_rate_that_overshoots() -> None:
    constraint = LayerConstraint("squared", 0.1, price=0.01)
    Lagrangian(prepared([2.3]), squared_to_goal, [constraint], duals=Ascent(0.1))
    with pytest.raises(InputError, match=r"the tolerance of w8/layer/weights.0 would overshoot: .* but is 10 x 0.2"):
        Lagrangian(prepared([2.3]), squared_to_goal, [constraint], duals=Ascent(0.2))


@pytest.mark.parametrize(("damping", "allowed"), [(0.07, True), (0.09, False)])
def test_refuses_a_damping_that_overshoots(damping: float, allowed: bool) -> None:
    def make() -> Lagrangian:
        constraint = LayerConstraint("squared", 0.1, price=0.01)
        return Lagrangian(prepared([2.3]), squared_to_goal, [constraint], duals=NuPI(0.05, damping, nu=0.5))

    if allowed:
        make()
    else:
        with pytest.raises(InputError, match=r"tolerance / price x \(dual rate \+ 2 x damping .* but is 10 x 0.11"):
            make()


def test_refuses_a_multiplicative_rate_that_overshoots() -> None:
    constraint = LayerConstraint("squared", 0.1, price=0.01)
    Lagrangian(prepared([2.3]), squared_to_goal, [constraint], duals=Multiplicative(1.0))
    with pytest.raises(InputError, match=r"weights.0 would overshoot: the dual rate must be at most 1 .*, not 1.5"):
        Lagrangian(prepared([2.3]), squared_to_goal, [constraint], duals=Multiplicative(1.5))


@pytest.mark.parametrize(("tolerance", "price"), [(0.05, 1.0), (0.05, 0.2), (0.01, 0.1)])
def test_multiplicative_settles_where_ascent_does(tolerance: float, price: float) -> None:
    lagrangian = Lagrangian(
        prepared([2.3]),
        squared_to_goal,
        [LayerConstraint("squared", tolerance, price)],
        duals=Multiplicative(0.5),
        objective="full",
    )
    solve(lagrangian, GOAL * Z, steps=40)
    assert lagrangian.tolerances.item() == pytest.approx(optimum(tolerance, price)[1], rel=1e-3)


def test_nupi_settles_where_ascent_does() -> None:
    tolerance, price = 0.05, 1.0
    rate, nu = 0.25 * price / tolerance, 0.5
    damping = 0.25 * price / tolerance * (1 + nu) / (2 * (1 - nu))
    lagrangian = Lagrangian(
        prepared([2.3]),
        squared_to_goal,
        [LayerConstraint("squared", tolerance, price)],
        duals=NuPI(rate, damping, nu),
        objective="full",
    )
    solve(lagrangian, GOAL * Z, steps=80)
    assert lagrangian.tolerances.item() == pytest.approx(optimum(tolerance, price)[1], rel=1e-3)
