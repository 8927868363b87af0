import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from multipliers_by_hand import BOUNDS, batches, regression_lagrangian, vector
from pdqat import (
    Ascent,
    InputError,
    Multiplicative,
    NuPI,
)
from pdqat.constraints import Bound
from pdqat.dual_rules import DUAL_RULES, DualRule, DualState
from pdqat.duals import Duals

finite = st.floats(-10, 10)


def test_ascent_by_hand() -> None:
    duals = Duals(BOUNDS, Ascent(0.5))
    duals.step(vector(-0.5, 0.25, 1.0, -1.0))
    assert duals.multipliers.tolist() == [0.75, 0.125, 0.5, 0]  # 1 - 0.25, 0.125, 0.5, [-0.5]_+
    duals.step(vector(-2.0, 0.25, -0.5, 0.5))
    assert duals.multipliers.tolist() == [0, 0.25, 0.25, 0.25]  # [0.75 - 1]_+, 0.125 + 0.125, 0.5 - 0.25, 0 + 0.25


def test_nupi_by_hand() -> None:
    """Rate 0.5, damping 2, nu 0.25.

    slack  1      xi = 0.75 x 1                  = 0.75          lambda = 1 + 0.5 + 2 (0.75 - 0)            = 3
    slack  0      xi = 0.25 x 0.75               = 0.1875        lambda = 3 + 0 + 2 (0.1875 - 0.75)         = 1.875
    slack -1      xi = 0.25 x 0.1875 - 0.75      = -0.703125     lambda = 1.875 - 0.5 + 2 (-0.890625) < 0   -> 0
    slack  0.5    xi = 0.25 x -0.703125 + 0.375  = 0.19921875    lambda = 0 + 0.25 + 2 (0.90234375)         = 2.0546875
    """
    duals = Duals(BOUNDS[:1], NuPI(0.5, damping=2, nu=0.25))
    multipliers = []
    for slack in (1.0, 0.0, -1.0, 0.5):
        duals.step(vector(slack))
        multipliers.append(duals.multipliers.item())
    assert multipliers == [3, 1.875, 0, 2.0546875]


def test_multiplicative_by_hand() -> None:
    """Rate 0.5; tolerances 0.1, 0.2, 0.3, 0.3.

    distances 0.4, 0.8, 0.3, 0       1 x 4^0.5 = 2    0.001 x 4^0.5 = 0.002     0.001 x 1^0.5 -> 0    0.001 x 0^0.5 -> 0
    distances 0.1, 0.2/9, 2.7, 1.2   2                0.002 x (1/9)^0.5 -> 0    0.001 x 9^0.5         0.001 x 4^0.5
    """
    duals = Duals(BOUNDS, Multiplicative(0.5))
    tolerances = vector(0.1, 0.2, 0.3, 0.3)
    duals.step(vector(0.4, 0.8, 0.3, 0.0) - tolerances)
    torch.testing.assert_close(duals.multipliers, vector(2, 0.002, 0, 0))
    duals.step(vector(0.1, 0.2 / 9, 2.7, 1.2) - tolerances)
    torch.testing.assert_close(duals.multipliers, vector(2, 0, 0.003, 0.002))


@pytest.mark.parametrize("rule", [Ascent(2.0), Multiplicative(0.5)], ids=str)
def test_rules_find_the_multiplier_of_a_problem_with_a_known_answer(rule: DualRule) -> None:
    """Least (x - 1)^2 / 2 such that x^2 / 2 <= 1/8: x = 1/2, and (x - 1) + lambda x = 0 makes lambda 1."""
    tolerance = 1 / 8
    duals = Duals([Bound("layer", "x", "2-bit", tolerance)], rule)
    for _ in range(60):
        x = 1 / (1 + duals.multipliers)  # the best x for this multiplier
        duals.step(x**2 / 2 - tolerance)
    assert duals.multipliers.item() == pytest.approx(1, rel=1e-4)


@given(st.floats(0.01, 100), st.floats(0.01, 1))
def test_a_multiplicative_step_falls_as_far_as_it_rises(ratio: float, rate: float) -> None:
    duals = Duals(BOUNDS[:1], Multiplicative(rate))
    for distance in (0.1 * ratio, 0.1 / ratio):
        duals.step(vector(distance - 0.1))
    assert duals.multipliers.item() == pytest.approx(1, rel=1e-2)


@pytest.mark.parametrize(("rule", "rate"), [("ascent", 0.1), ("nupi", 0.1), ("multiplicative", 0.5)])
def test_rules_have_names_and_rates_of_their_own(rule: str, rate: float) -> None:
    by_default, with_rate = Duals(BOUNDS, DUAL_RULES[rule]()), Duals(BOUNDS, DUAL_RULES[rule](rate))
    for duals in (by_default, with_rate):
        duals.step(vector(0.3, 0.2, -0.1, 0.4))
    assert torch.equal(by_default.multipliers, with_rate.multipliers)
    assert not torch.equal(by_default.multipliers, Duals(BOUNDS).multipliers), "it moves"
    assert by_default.rule.name == rule


def test_without_a_rule_it_is_ascent() -> None:
    assert Duals(BOUNDS).rule == Ascent(0.1)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # slacks 0.5, 0.25, 0, 0.5, -1, 0.5 from a multiplier of 1: back to 0 with the third and the fifth
        (Ascent(0.5, restart=True), [1.25, 1.375, 0, 0.25, 0, 0.25]),
        # damping 2, nu 0: lambda + 0.5 slack + 2 (slack - slack before), the one before being 0 after a restart
        (NuPI(0.5, damping=2, restart=True), [2.25, 1.875, 0, 1.25, 0, 1.25]),
        # v / 2 + slack: 0.5, 0.5, forgotten, 0.5, forgotten, 0.5
        ("own", [1.25, 1.5, 0, 0.25, 0, 0.25]),
    ],
    ids=["ascent", "nupi", "own rule"],
)
def test_a_multiplier_restarts_at_0_once_its_constraint_is_met(rule: DualRule | str, expected: list[float]) -> None:
    duals = Duals(BOUNDS[:1], rule if isinstance(rule, DualRule) else Momentum(0.5, restart=True))
    multipliers = []
    for slack in (0.5, 0.25, 0.0, 0.5, -1.0, 0.5):
        duals.step(vector(slack))
        multipliers.append(duals.multipliers.item())
        assert slack > 0 or duals.smoothed.item() == 0
    assert multipliers == expected


def test_a_multiplicative_multiplier_rises_again_after_a_restart() -> None:
    """Tolerance 0.1. Distance 0.4 doubles the multiplier; one of 0.09 ends it; then 0.4 doubles the least one, 0.001"""
    duals = Duals(BOUNDS[:1], Multiplicative(restart=True))
    multipliers = []
    for distance in (0.4, 0.09, 0.4):
        duals.step(vector(distance) - duals.tolerances)
        multipliers.append(duals.multipliers.item())
    assert multipliers == pytest.approx([2, 0, 0.002], rel=1e-6)


def test_each_channel_restarts_by_itself() -> None:
    duals = Duals(BOUNDS, Ascent(1.0, restart=True))
    duals.step(vector(-0.5, 0.5, 0.25, 0.5))
    duals.step(vector(0.5, 0.5, -0.25, 0.5))
    assert duals.multipliers.tolist() == [0.5, 1.0, 0, 1.0]


def test_a_slack_that_is_not_a_number_is_not_taken_for_a_constraint_that_is_met() -> None:
    duals = Duals(BOUNDS[:1], Ascent(1.0, restart=True))
    duals.step(vector(math.nan))
    assert math.isnan(duals.multipliers.item())


def test_a_tolerance_that_tunes_itself_has_no_restarts() -> None:
    tuning = Bound("layer", "conv0", "2-bit", 0.1, price=0.1)
    with pytest.raises(InputError, match="the tolerance of 2-bit/layer/conv0 tunes itself by its multiplier"):
        Duals([tuning], Ascent(0.5, restart=True))


def test_multiplicative_needs_a_tolerance_to_divide_by() -> None:
    with pytest.raises(InputError, match="needs tolerances above 0, but that of 2-bit/layer/conv0 is 0"):
        Duals([Bound("layer", "conv0", "2-bit", 0.0)], Multiplicative())


def test_a_multiplicative_step_of_a_tolerance_that_tunes_itself_by_hand() -> None:
    """Tolerance 0.1 at price 0.2, so t = 0.5 lambda; distance 0.08, rate 0.5.

    lambda 0 counts as 0.001, t as 0.0005:  0.001 x (0.08 / 0.0005)^0.5     then towards lambda = 0.08 / 0.5
    """
    duals = Duals([Bound("layer", "conv0", "2-bit", 0.1, price=0.2)], Multiplicative(0.5))
    duals.step(0.08 - duals.tolerances)
    assert duals.multipliers.item() == pytest.approx(0.001 * 160**0.5)
    for _ in range(20):
        duals.step(0.08 - duals.tolerances)
    assert duals.multipliers.item() == pytest.approx(0.16, rel=1e-4)
    assert duals.tolerances.item() == pytest.approx(0.08, rel=1e-4)


@given(st.lists(st.tuples(finite, finite, finite, finite), max_size=5), st.floats(0, 5))
def test_multipliers_are_never_negative(slacks: list[tuple[float, ...]], rate: float) -> None:
    for rule in (Ascent(rate), NuPI(rate, damping=0.7, nu=0.3), Multiplicative(rate)):
        duals = Duals(BOUNDS, rule)
        for numbers in slacks:
            duals.step(vector(*numbers))
            assert (duals.multipliers >= 0).all()


@given(st.lists(st.tuples(finite, finite, finite, finite), max_size=5))
def test_nupi_without_damping_is_ascent(slacks: list[tuple[float, ...]]) -> None:
    ascent, nupi = Duals(BOUNDS, Ascent(0.3)), Duals(BOUNDS, NuPI(0.3, damping=0, nu=0.5))
    for numbers in slacks:
        ascent.step(vector(*numbers))
        nupi.step(vector(*numbers))
    assert torch.equal(ascent.multipliers, nupi.multipliers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": -0.1}, "the dual rate must be zero or more and finite, not -0.1"),
        ({"rate": math.nan}, "the dual rate must be zero or more and finite, not nan"),
        ({"rate": math.inf}, "the dual rate must be zero or more and finite, not inf"),
        ({"damping": -1.0}, "the nuPI damping must be zero or more and finite"),
        ({"nu": 1.0}, "nu must be from 0 to below 1"),
        ({"nu": -0.1}, "nu must be from 0 to below 1"),
        ({"nu": math.nan}, "nu must be from 0 to below 1"),
        ({"restart": "often"}, "restart says whether multipliers restart, True or False, not 'often'"),
    ],
)
def test_settings_out_of_range(options: dict[str, Any], message: str) -> None:
    for rule in (NuPI,) if {"damping", "nu"} & options.keys() else (NuPI, Ascent, Multiplicative):
        with pytest.raises(InputError, match=message):
            rule(**options)


def test_a_name_is_not_a_rule() -> None:
    with pytest.raises(InputError, match=r"duals is a dual rule such as Ascent\(rate=0.01\), not 'adam'"):
        Duals(BOUNDS, "adam")  # type: ignore[arg-type]


class Momentum(DualRule):
    """A rule of one's own: v <- v / 2 + slack, lambda <- [lambda + rate x v]_+; v is the memory."""

    def step(self, state: DualState, slacks: Tensor) -> tuple[Tensor, Tensor]:
        velocity = state.memory / 2 + slacks
        return (state.multipliers + self.rate * velocity).clamp(min=0), velocity

    @property
    def gain(self) -> float:
        return 2 * self.rate  # 1 + 1/2 + 1/4 + ...


def test_a_rule_of_ones_own() -> None:
    """Rate 0.5: v = 1, 0.5 + 1 = 1.5, 0.75 - 4 = -3.25; lambda = 1 + 0.5, + 0.75, - 1.625; and goes on from a file."""
    duals, reloaded = Duals(BOUNDS[:1], Momentum(0.5)), Duals(BOUNDS[:1], Momentum(0.5))
    multipliers = []
    for slack in (1.0, 1.0, -4.0):
        duals.step(vector(slack))
        multipliers.append(duals.multipliers.item())
        reloaded.load_state_dict(duals.state_dict())
    assert multipliers == [1.5, 2.25, 0.625]
    for own in (duals, reloaded):
        own.step(vector(4.0))  # v = -1.625 + 4
    assert duals.multipliers.item() == reloaded.multipliers.item() == 0.625 + 0.5 * 2.375


def test_a_rule_of_ones_own_trains_and_is_checked() -> None:
    lagrangian = regression_lagrangian(rule=Momentum(2.0))
    for x, y in batches(4, 6):
        lagrangian(x, y)
        slacks = lagrangian.dual_step()
    assert lagrangian.duals.smoothed.tolist() != slacks.tolist(), "it remembers the first step"
    tuning = Bound("layer", "conv0", "2-bit", 0.1, price=0.1)
    Duals([tuning], Momentum(0.5))
    with pytest.raises(
        InputError, match=r"would overshoot: tolerance / price x dual rate must be at most 1, but is 1 x 1\.2"
    ):
        Duals([tuning], Momentum(0.6))
    with pytest.raises(InputError, match="the dual rate must be zero or more"):
        Momentum(-1.0)
