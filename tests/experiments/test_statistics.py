"""Differences and stationarity against values worked out by hand."""

import math

import pytest

from pdqat.experiments.statistics import (
    Difference,
    JointStationarity,
    final_multipliers,
    holm,
    percent,
    rank_correlation,
)


def entry(multipliers: dict[str, list[float]], slacks: dict[str, list[float]]) -> dict[str, object]:
    return {"multipliers": multipliers, "slacks": slacks}


def test_a_difference_over_pairs_has_students_interval() -> None:
    difference = Difference.of([(3.0, 1.0), (5.0, 2.0), (4.0, 0.0)])  # differences 2, 3, 4: mean 3, deviation 1
    assert difference is not None
    half = 4.302653 / math.sqrt(3)  # the quantile of t with 2 degrees of freedom
    assert (difference.mean, difference.low, difference.high) == pytest.approx((3, 3 - half, 3 + half), abs=1e-5)
    assert difference.p == pytest.approx(0.035098, abs=1e-5)
    assert str(difference) == "+3.00 [+0.52, +5.48], p = 0.035, n = 3"


def test_noise_is_not_called_a_win() -> None:
    difference = Difference.of([(1.0, 0.0), (0.0, 1.0), (2.0, 0.0)])
    assert str(difference).endswith("not significant")


def test_one_pair_says_nothing_about_spread() -> None:
    assert Difference.of([(1.0, 0.0)]) is None


def test_a_spread_that_chance_has_hidden_is_not_called_certain() -> None:
    assert str(Difference.of([(64.59, 61.0), (64.59, 61.0)])) == "+3.59, n = 2, the same for all seeds"


def test_means_have_the_standard_deviation_of_a_sample() -> None:
    entries = [{"accuracy": accuracy} for accuracy in (0.50, 0.53, None, 0.56)]
    assert str(percent(entries, "accuracy")) == "53.00 ± 3.00 (n = 3)"
    assert str(percent(entries[:1], "accuracy")) == "50.00 (n = 1)"
    assert str(percent([], "accuracy")) == "-"


def test_settled_multipliers_under_complementary_slackness_have_no_residual() -> None:
    settled = entry(
        {"output": [1.0, 2.0, 3.0], "a": [0.5, 0.5, 0.5], "b": [0.0, 0.0, 0.0]},
        {"output": [9.0, 9.0, 9.0], "a": [0.1, 0.0, 0.0], "b": [-0.2, -0.2, -0.2]},
    )
    assert JointStationarity.of(settled, ["a", "b"]) == JointStationarity(0.0, 0.0, 0.0)


def test_the_residual_is_the_smaller_of_multiplier_and_negative_slack() -> None:
    moving = entry(
        {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.1, 0.1, 0.1, 0.1]},
        {"a": [0.3, 0.3, 0.3, 0.3], "b": [0.0, 0.0, 0.0, -0.05]},
    )
    stationarity = JointStationarity.of(moving, ["a", "b"])
    assert stationarity.total_change == pytest.approx((0.4 - 0.2) / 0.5)
    assert stationarity.largest_residual == pytest.approx(0.3)
    assert stationarity.largest_slack == pytest.approx(0.3)


def test_rank_correlation_compares_final_orders_of_layers() -> None:
    one = final_multipliers(entry({"output": [5.0], "a": [3.0, 1.0], "b": [2.0, 2.0], "c": [1.0, 3.0]}, {}))
    assert one == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert rank_correlation(one, one) == pytest.approx(1)
    assert rank_correlation(one, {"c": 15.0, "b": 20.0, "a": 10.0}) == pytest.approx(0.5)
    assert math.isnan(rank_correlation(one, {"a": 0.0, "b": 0.0, "c": 0.0}))


def test_holm_multiplies_the_smallest_by_most_and_keeps_the_order() -> None:
    # by hand: 0.01 x 4, then 0.02 x 3, then 0.03 x 2, which may not be less than 0.06, then 0.9 x 1
    assert holm([0.03, 0.9, 0.01, 0.02]) == pytest.approx([0.06, 0.9, 0.04, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []
