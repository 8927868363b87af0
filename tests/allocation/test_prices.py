"""From multipliers and scores to prices, by hand."""

import pytest
import torch

from pdqat import LayerConstraint
from pdqat.allocation.budget import Budget
from pdqat.allocation.offer import offer
from pdqat.allocation.prices import Price, multiplier_prices, score_prices
from pdqat.allocation.program import cheapest_plan
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize
from pdqat.precision import FULL, Precision
from pdqat.sensitivity.probe import candidate_distances
from small_problems import small

HELD = {"a": 0.5, "b": 0.2}


def within(prices: dict[str, Price]) -> dict[str, float]:
    return {layer: price.within for layer, price in prices.items()}


def test_multipliers_are_prices_of_what_is_held_and_the_mean_is_the_least_beyond_it() -> None:
    prices = multiplier_prices({"a": 3.0, "b": 1.0}, HELD)
    assert prices == {"a": Price(3.0, 3.0, 0.5), "b": Price(1.0, 2.0, 0.2)}
    assert [prices[layer].is_floor for layer in "ab"] == [False, True]
    assert prices["a"].cost(0.1) == pytest.approx(0.3)
    assert prices["a"].cost(0.7) == pytest.approx(2.1)
    assert prices["b"].cost(0.2) == pytest.approx(0.2)
    assert prices["b"].cost(0.7) == pytest.approx(1.0 * 0.2 + 2.0 * 0.5)


def test_other_scores_are_divided_by_the_distance_at_the_layers_own_precision() -> None:
    prices = score_prices({"a": 3.0, "b": 1.0}, {"a": 0.5, "b": 0.05})
    assert within(prices) == pytest.approx({"a": 6.0, "b": 20.0})
    assert prices["a"].cost(100.0) == pytest.approx(600.0)
    assert not any(price.is_floor for price in prices.values())


@pytest.mark.parametrize("score", [0.0, -5.0])
def test_no_price_is_below_a_hundredth_of_the_mean(score: float) -> None:
    assert within(multiplier_prices({"a": 3.0, "b": score}, HELD)) == pytest.approx({"a": 3.0, "b": 0.015})


def test_a_score_at_no_distance_says_nothing() -> None:
    prices = score_prices({"a": 3.0, "b": 1.0}, {"a": 0.0, "b": 0.5})
    assert within(prices) == pytest.approx({"a": 0.01, "b": 2.0})


@pytest.mark.parametrize("scores", [{"a": 0.0, "b": 0.0}, {"a": -1.0, "b": 0.0}])
def test_without_any_score_above_zero_there_are_no_prices(scores: dict[str, float]) -> None:
    for made in (multiplier_prices, score_prices):
        with pytest.raises(InputError, match="no score is above 0, so nothing tells layers apart; train longer"):
            made(scores, HELD)


def test_a_layer_at_its_tolerance_is_not_lowered_for_its_multiplier_of_zero() -> None:
    """It is the largest layer, so that lowering it alone would pay for all others."""
    one, two, four = (Precision(bits, bits) for bits in (1, 2, 4))
    distances = {
        "at its tolerance": {one: 0.9, two: 0.1, four: 0.01},
        "well within": {one: 0.06, two: 0.02, four: 0.001},
        "priced": {one: 0.5, two: 0.1, four: 0.01},
    }
    multipliers = {"at its tolerance": 0.0, "well within": 0.01, "priced": 0.05}
    prices = multiplier_prices(multipliers, dict.fromkeys(multipliers, 0.1))
    costs = {
        layer: {precision: prices[layer].cost(distance) for precision, distance in by_precision.items()}
        for layer, by_precision in distances.items()
    }
    assert costs["at its tolerance"][one] == pytest.approx(0.0002 * 0.1 + 0.02 * 0.8)
    assert costs["well within"][one] == pytest.approx(0.01 * 0.06)
    sizes = {"at its tolerance": LayerSize(300, 1), "well within": LayerSize(200, 1), "priced": LayerSize(100, 1)}
    plan = cheapest_plan(costs, sizes, Budget.parse("2 bits")).precisions
    assert plan == {"at its tolerance": two, "well within": one, "priced": four}


def test_more_bits_for_a_layer_with_a_multiplier_of_zero_buy_next_to_nothing() -> None:
    price = multiplier_prices({"a": 0.0, "b": 2.0}, HELD)["a"]
    assert price.cost(0.5) - price.cost(0.0) == pytest.approx(0.01 * 0.5)
    assert price.cost(1.0) - price.cost(0.5) == pytest.approx(1.0 * 0.5)


def test_a_layer_is_held_to_its_tolerance_or_to_the_distance_that_it_has() -> None:
    made = small()
    layers = [bound for bound in made.problem.bounds if bound.kind == "layer"]
    offered = offer(made.problem, made.batches, by="dual")
    own = candidate_distances(made.problem, list(made.batches), [Precision(2, 2)])
    for bound in layers:
        expected = max(bound.tolerance, own[bound.where][Precision(2, 2)])
        assert offered.prices[bound.where].held == pytest.approx(expected)


def test_lowering_a_layer_with_a_multiplier_of_zero_costs_the_mean_per_distance() -> None:
    made = small()
    multipliers = made.problem.duals.named()
    with torch.no_grad():
        for bound, value in zip(made.problem.bounds[1:], (0.0, 0.3, 0.6), strict=True):
            multipliers[bound.name].fill_(value)
    offered = offer(made.problem, made.batches, by="dual")
    layer = made.problem.bounds[1].where
    distances = candidate_distances(made.problem, list(made.batches), [Precision(1, 1)])
    price = offered.prices[layer]
    expected = 0.003 * min(price.held, distances[layer][Precision(1, 1)])
    expected += 0.3 * max(0.0, distances[layer][Precision(1, 1)] - price.held)
    assert offered.costs[layer][Precision(1, 1)] == pytest.approx(expected)


def test_full_precision_does_not_buy_what_the_next_layer_rounds() -> None:
    """Else it would look far cheaper than 8 bits, which leave as much to the rounding of the layer behind."""
    made = small(constraints=[LayerConstraint("squared")])
    costs = offer(made.problem, made.batches, by="dual", bits=(2, 8, "full")).costs
    two, eight = Precision(2, 2), Precision(8, 8)
    for layer in ("3", "6"):  # read by "6" and "9"
        remains = costs[layer][FULL]
        assert remains > costs[layer][eight] / 2
        assert abs(costs[layer][eight] - remains) < (costs[layer][two] - remains) / 25
    assert costs["9"][FULL] == 0  # read by the head, which does not round
