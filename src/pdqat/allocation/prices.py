"""What a layer's precision is predicted to cost: its price times its distance at each candidate precision.

    cost[l, b] = price_l x distance_l(b)

A ranking other than the multipliers gives a score at the layer's own precision b_l, so its price is score_l /
distance_l(b_l). A layer whose price is 0 would be given the fewest bits, however wrong that zero is, so no price is
below LEAST of the mean.

By multipliers the price is lambda_l up to the distance that the layer is held to, and no less than the mean beyond it:

    cost[l, b] = lambda_l x min(distance_l(b), held_l) + max(lambda_l, mean lambda) x max(0, distance_l(b) - held_l)
    held_l     = max(tolerance_l, distance_l(b_l))

Why: Theorem 1 says P*(e') >= P*(e) - lambda_l (e' - e) for every other tolerance e' of layer l. So lambda_l x change is
what a looser bound saves at the most, and what a tighter one costs at the *least*. Fewer bits tighten a bound: a layer
that they take beyond what it is held to has to come closer by as much. A multiplier of 0 thus says that more bits buy
nothing, not that fewer cost nothing. Once the bound binds it has a price, and what bounds are priced at on average is
what is known of it. A layer that is bounded with its block only has the block's multiplier, and no tolerance of its
own: it is held to its distance at its own precision.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pdqat.allocation.joint import Costs
from pdqat.batches import Batches
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.precision import FULL, Precision
from pdqat.sensitivity.low_layers import plan_of
from pdqat.sensitivity.probe import candidate_distances
from pdqat.task import Problem

LEAST = 0.01


@dataclass(frozen=True)
class Price:
    """Of a layer's distance."""

    within: float
    """For each unit up to `held`."""
    beyond: float
    """For each unit above it."""
    held: float = math.inf

    def cost(self, distance: float) -> float:
        """Of a layer that is so far from its full-precision self."""
        return self.within * min(distance, self.held) + self.beyond * max(0.0, distance - self.held)

    @property
    def is_floor(self) -> bool:
        """Whether lowering bits is priced by the mean, since the layer's own multiplier is lower."""
        return self.beyond > self.within


@dataclass(frozen=True)
class Prediction:
    """Prices by layer, and costs by layer and precision."""

    prices: Mapping[str, Price]
    costs: Costs


def predict(
    problem: Problem,
    batches: Batches,
    scores: Mapping[str, float],
    are_multipliers: bool,
    choices: Mapping[str, Sequence[Precision]],
) -> Prediction:
    """What each precision that a layer may be given costs, for layers with these scores."""
    own = {layer: plan_of(problem)[layer] for layer in choices}
    allowed_somewhere = [precision for allowed in choices.values() for precision in allowed]
    tried = dict.fromkeys([*allowed_somewhere, *own.values(), FULL])
    measured = candidate_distances(problem, batches, list(tried))
    of_choosing = {layer: scores[layer] for layer in choices}
    if are_multipliers:
        tolerances = _tolerances(problem)
        held = {layer: max(tolerances.get(layer, 0.0), measured[layer][own[layer]]) for layer in choices}
        prices = multiplier_prices(of_choosing, held)
    else:
        saved = {layer: measured[layer][own[layer]] - measured[layer][FULL] for layer in choices}
        prices = score_prices(of_choosing, saved)
    costs = {
        layer: {precision: prices[layer].cost(measured[layer][precision]) for precision in allowed}
        for layer, allowed in choices.items()
    }
    return Prediction(prices, costs)


def dual_prices(multipliers: Mapping[str, float]) -> tuple[dict[str, float], str]:
    """Prices by multipliers, and what they go by: where no multiplier is above 0 all are equal, so distances decide."""
    if any(multiplier > 0 for multiplier in multipliers.values()):
        return dict(multipliers), "multipliers"
    return dict.fromkeys(multipliers, 1.0), "distances"


def multiplier_prices(multipliers: Mapping[str, float], held: Mapping[str, float]) -> dict[str, Price]:
    """By layer, from its multiplier and the distance that it is held to."""
    mean, raised = _raised(multipliers)
    return {layer: Price(price, max(price, mean), held[layer]) for layer, price in raised.items()}


def score_prices(scores: Mapping[str, float], distances: Mapping[str, float]) -> dict[str, Price]:
    """By layer, from its score and the distance that full precision would save: what the next layer rounds stays."""
    rates = {layer: score / distances[layer] if distances[layer] > 0 else 0.0 for layer, score in scores.items()}
    _, raised = _raised(rates)
    return {layer: Price(price, price) for layer, price in raised.items()}


def _raised(rates: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """The mean, and every rate with the least of it."""
    above = {layer: max(rate, 0.0) for layer, rate in rates.items()}
    mean = sum(above.values()) / len(above)
    if mean == 0:
        raise InputError("no score is above 0, so nothing tells layers apart; train longer, or rank by another")
    return mean, {layer: max(rate, LEAST * mean) for layer, rate in above.items()}


def _tolerances(problem: Problem) -> dict[str, float]:
    assert isinstance(problem, Lagrangian)  # it has multipliers
    named = problem.duals.named(problem.tolerances)
    return {bound.where: float(named[bound.name]) for bound in problem.bounds if bound.kind == "layer"}
