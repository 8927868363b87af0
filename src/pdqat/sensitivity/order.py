"""Rankings that look at nothing: what every other one has to beat."""

import random

from pdqat.sensitivity.subject import Subject


def at_random(subject: Subject) -> dict[str, float]:
    """A random order that follows from the run's seed."""
    draw = random.Random(subject.setup.config.seed)
    return {name: draw.random() for name in subject.layers}


def first_and_last(subject: Subject) -> dict[str, float]:
    """The outermost layers first: the nearer to input or output, the higher."""
    names = list(subject.layers)
    return {name: 1 / (1 + min(place, len(names) - 1 - place)) for place, name in enumerate(names)}
