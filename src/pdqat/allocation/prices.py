"""What a layer's precision is predicted to cost: its price times its distance at each candidate precision.

    cost[l, b] = price_l x distance_l(b)

By multipliers the price is lambda_l itself (Theorem 1: the rate at which the objective pays for layer l's distance).
Any other ranking gives a score at the layer's own precision b_l, so its price is score_l / distance_l(b_l). A layer
whose price is 0 would be given the fewest bits, however wrong that zero is, so no price is below LEAST of the mean.
"""

from collections.abc import Mapping, Sequence

from pdqat.allocation.program import Costs
from pdqat.batches import Batches
from pdqat.errors import InputError
from pdqat.precision import FULL, Precision
from pdqat.sensitivity.low_layers import plan_of
from pdqat.sensitivity.probe import candidate_distances
from pdqat.task import Problem

LEAST = 0.01


def predicted_costs(
    problem: Problem,
    batches: Batches,
    scores: Mapping[str, float],
    are_prices: bool,
    choices: Mapping[str, Sequence[Precision]],
) -> Costs:
    """Per layer and precision that it may be given, for layers with these scores."""
    own = {layer: plan_of(problem)[layer] for layer in choices}
    tried = dict.fromkeys([precision for allowed in choices.values() for precision in allowed] + list(own.values()))
    measured = candidate_distances(problem, batches, list(tried))
    price = prices({layer: scores[layer] for layer in choices}, measured, None if are_prices else own)
    return {
        layer: {
            precision: 0.0 if precision == FULL else price[layer] * measured[layer][precision] for precision in allowed
        }
        for layer, allowed in choices.items()
    }


def dual_prices(multipliers: Mapping[str, float]) -> tuple[dict[str, float], str]:
    """Prices by multipliers, and what they go by: where no multiplier is above 0 all are equal, so distances decide."""
    if any(multiplier > 0 for multiplier in multipliers.values()):
        return dict(multipliers), "multipliers"
    return dict.fromkeys(multipliers, 1.0), "distances"


def prices(
    scores: Mapping[str, float], measured: Mapping[str, Mapping[Precision, float]], own: Mapping[str, Precision] | None
) -> dict[str, float]:
    """Per layer; `own` are the precisions that the scores belong to, None if scores are prices already."""
    by_layer = {}
    for layer, score in scores.items():
        if own is None:
            by_layer[layer] = max(score, 0.0)
        else:
            distance = measured[layer][own[layer]]
            by_layer[layer] = max(score, 0.0) / distance if distance > 0 else 0.0
    mean = sum(by_layer.values()) / len(by_layer)
    if mean == 0:
        raise InputError("no score is above 0, so nothing tells layers apart; train longer, or rank by another")
    return {layer: max(price, LEAST * mean) for layer, price in by_layer.items()}
