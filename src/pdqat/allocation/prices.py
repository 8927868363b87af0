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
from pdqat.quantizers import SCHEMES
from pdqat.sensitivity.probe import distances
from pdqat.sensitivity.subject import Subject

LEAST = 0.01


def predicted_costs(
    subject: Subject, scores: Mapping[str, float], are_prices: bool, choices: Mapping[str, Sequence[Precision]]
) -> Costs:
    """Per layer and precision that it may be given, for a subject whose layers have these scores."""
    own = {layer: subject.plan[layer] for layer in choices}
    _check_quantizer(subject.setup.config.quantizer, own, choices)
    tried = dict.fromkeys([each for found in choices.values() for each in found] + list(own.values()))
    measured = distances(subject, list(tried))
    price = prices({layer: scores[layer] for layer in choices}, measured, None if are_prices else own)
    return {
        layer: {each: 0.0 if each == FULL else price[layer] * measured[layer][each] for each in found}
        for layer, found in choices.items()
    }


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
        raise InputError("no score is above 0, so nothing tells layers apart; train longer, or rank by another")
    return {layer: max(price, LEAST * mean) for layer, price in found.items()}


def _check_quantizer(quantizer: str, own: Mapping[str, Precision], choices: Mapping[str, Sequence[Precision]]) -> None:
    if SCHEMES[quantizer].any_bits:
        return
    for layer, found in choices.items():
        if not {FULL, own[layer]}.issuperset(found):
            raise InputError(
                f"quantizer {quantizer!r} keeps a step size for the bits that a layer was trained with: {layer} can't "
                f"be tried at others than {own[layer]}, as "
                f"{', '.join(name for name, each in SCHEMES.items() if each.any_bits)} can"
            )
