"""Rankings that look at nothing: what every other one has to beat."""

import random

from pdqat.batches import Batches
from pdqat.sensitivity.low_layers import low_layers
from pdqat.task import Problem


def at_random(problem: Problem, batches: Batches, seed: int = 0) -> dict[str, float]:  # noqa: ARG001
    """Random scores that follow from the seed."""
    draw = random.Random(seed)
    return {name: draw.random() for name in low_layers(problem)}


def first_and_last(problem: Problem, batches: Batches) -> dict[str, float]:  # noqa: ARG001
    """The outermost layers first: the nearer to input or output, the higher."""
    names = list(low_layers(problem))
    return {name: 1 / (1 + min(place, len(names) - 1 - place)) for place, name in enumerate(names)}
