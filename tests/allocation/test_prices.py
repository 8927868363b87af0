"""From scores to prices, by hand."""

import pytest

from pdqat.allocation.prices import prices
from pdqat.errors import InputError
from pdqat.precision import Precision

TWO, FOUR = Precision(2, 2), Precision(4, 4)
MEASURED = {"a": {TWO: 0.5, FOUR: 0.1}, "b": {TWO: 0.2, FOUR: 0.05}}


def test_multipliers_are_prices() -> None:
    assert prices({"a": 3.0, "b": 1.0}, MEASURED, None) == {"a": 3.0, "b": 1.0}


def test_other_scores_are_divided_by_the_distance_at_the_layers_own_precision() -> None:
    assert prices({"a": 3.0, "b": 1.0}, MEASURED, {"a": TWO, "b": FOUR}) == pytest.approx({"a": 6.0, "b": 20.0})


@pytest.mark.parametrize("score", [0.0, -5.0])
def test_no_price_is_below_a_hundredth_of_the_mean(score: float) -> None:
    assert prices({"a": 3.0, "b": score}, MEASURED, None) == pytest.approx({"a": 3.0, "b": 0.015})


def test_a_score_at_no_distance_says_nothing() -> None:
    by_layer = prices({"a": 3.0, "b": 1.0}, {"a": {TWO: 0.0}, "b": {TWO: 0.5}}, {"a": TWO, "b": TWO})
    assert by_layer == pytest.approx({"a": 0.01, "b": 2.0})


@pytest.mark.parametrize("scores", [{"a": 0.0, "b": 0.0}, {"a": -1.0, "b": 0.0}])
def test_without_any_score_above_zero_there_are_no_prices(scores: dict[str, float]) -> None:
    with pytest.raises(InputError, match="no score is above 0, so nothing tells layers apart; train longer"):
        prices(scores, MEASURED, None)
