"""What a layer's precision is predicted to cost: its price times its distance at each candidate precision.

    cost[l, b] = price_l x distance_l(b)

By multipliers the price is lambda_l itself (Theorem 1: the rate at which the objective pays for layer l's distance).
Any other ranking gives a score at the run's own precision b_l, so its price is score_l / distance_l(b_l). A layer whose
price is 0 would be given the fewest bits, however wrong that zero is, so no price is below LEAST of the mean.
"""

from collections.abc import Mapping, Sequence

from pdqat.allocation.program import Costs
from pdqat.errors import InputError
from pdqat.precision import FULL, Precision
from pdqat.rules import check_all_match, resolve
from pdqat.sensitivity.probe import distances
from pdqat.sensitivity.subject import Subject

LEAST = 0.01


def predicted_costs(
    subject: Subject,
    scores: dict[str, float],
    are_prices: bool,
    candidates: Sequence[Precision],
    pinned: dict[str, Precision],
) -> Costs:
    """Per layer and precision, for a subject whose layers have these scores."""
    own = {layer: subject.plan[layer] for layer in scores}
    tried = list(dict.fromkeys([*candidates, *pinned.values(), *own.values()]))
    measured = distances(subject, tried)
    return costs(prices(scores, measured, None if are_prices else own), measured, candidates, pinned)


def prices(
    scores: Mapping[str, float], measured: Mapping[str, Mapping[Precision, float]], own: Mapping[str, Precision] | None
) -> dict[str, float]:
    """Per layer; `own` are the precisions that the scores belong to, None if scores are prices already."""
    found = {}
    for layer, score in scores.items():
        if own is None:
            found[layer] = max(score, 0.0)
        else:
            distance = measured[layer][own[layer]]
            found[layer] = max(score, 0.0) / distance if distance > 0 else 0.0
    mean = sum(found.values()) / len(found)
    if mean == 0:
        raise InputError("every score is 0: there is nothing to tell layers apart by; train longer, or rank by another")
    return {layer: max(price, LEAST * mean) for layer, price in found.items()}


def costs(
    price: Mapping[str, float],
    measured: Mapping[str, Mapping[Precision, float]],
    candidates: Sequence[Precision],
    pinned: Mapping[str, Precision],
) -> Costs:
    """The table that `allocate` chooses from; a pinned layer has one precision to choose from."""
    check_all_match(pinned, price, "the pinned layer")
    table: dict[str, dict[Precision, float]] = {}
    for layer, each in price.items():
        pin = resolve(pinned, layer, None)
        chosen = candidates if pin is None else [pin]
        table[layer] = {
            precision: 0.0 if precision == FULL else each * measured[layer][precision] for precision in chosen
        }
    return table
