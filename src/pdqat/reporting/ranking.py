"""Layers by what their precision costs: by multipliers, and by the rival rankings beside them."""

from collections.abc import Mapping
from dataclasses import dataclass

from pdqat.errors import InputError
from pdqat.reporting.subject import Subject
from pdqat.sensitivity import layer_scores
from pdqat.sensitivity.low_layers import low_layers

AT_HAND = ("dual", "distance")
"""What one pass tells."""
RIVALS = ("dual", "hessian", "gradient", "only-low", "only-high", "distance")
JUDGES = 256
"""So many samples judge: some rankings take a pass for every layer."""


@dataclass(frozen=True)
class Rankings:
    """The scores of every layer, by ranking: the higher, the more it is said to need its precision."""

    layers: list[str]
    scores: dict[str, dict[str, float]]
    """By ranking and layer."""
    agreement: dict[str, float]
    """By ranking, its rank correlation (Spearman) with the first one."""
    refused: dict[str, str]
    """Rankings that don't apply, with the reason."""
    samples: int


def rankings_of(subject: Subject) -> Rankings:
    """All of them, or for a quick report those that one pass tells."""
    layers, judges = list(low_layers(subject.problem)), subject.held_out(JUDGES)
    scores, refused = {}, {}
    for by in RIVALS if subject.thorough else AT_HAND:
        try:
            scores[by] = layer_scores(subject.problem, judges, by)
        except InputError as error:
            refused[by] = str(error)
    if not scores:
        raise InputError(next(iter(refused.values())))
    first = next(iter(scores.values()))
    agreement = {by: rank_correlation(first, of_layer) for by, of_layer in scores.items()}
    return Rankings(layers, scores, agreement, refused, sum(len(target) for _, target in judges))


def rank_correlation(left: Mapping[str, float], right: Mapping[str, float]) -> float:
    """Spearman's: 1 for the same order, -1 for the opposite one, 0 where one of them tells no layers apart.

    >>> rank_correlation({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 10.0, "b": 20.0, "c": 30.0})
    1.0
    """
    names = [name for name in left if name in right]
    first, second = ranks({name: left[name] for name in names}), ranks({name: right[name] for name in names})
    middle = (len(names) + 1) / 2
    together = sum((first[name] - middle) * (second[name] - middle) for name in names)
    spread = [sum((its[name] - middle) ** 2 for name in names) for its in (first, second)]
    return together / (spread[0] * spread[1]) ** 0.5 if all(spread) else 0.0


def ranks(scores: Mapping[str, float]) -> dict[str, float]:
    """From 1 for the lowest score; equal ones share the mean of their places.

    >>> ranks({"a": 5.0, "b": 5.0, "c": 9.0})
    {'a': 1.5, 'b': 1.5, 'c': 3.0}
    """
    values = list(scores.values())
    return {
        name: sum(value < score for value in values) + (values.count(score) + 1) / 2 for name, score in scores.items()
    }
