"""What classifiers choose: the confusion matrix of every view, and the samples on which views disagree."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pdqat.classes import class_dims
from pdqat.errors import InputError
from pdqat.layers.modes import evaluating
from pdqat.reporting.png import data_address, min_max
from pdqat.reporting.subject import Pair, Subject

SHOWN = 24
"""Disagreements that are shown; the rest is counted."""


@dataclass(frozen=True)
class Disagreement:
    """A sample for which full and low precision choose different classes."""

    sample: int
    """Its place in the validation data."""
    target: int
    full: int
    low: int
    picture: str
    """As an address that holds the image itself; empty if the input is no image."""


@dataclass
class ViewChoices:
    """What a view chose."""

    confusion: list[tuple[int, int, int]] = field(default_factory=list)
    """Target, choice and how often, where that is not 0."""
    differing: int | None = None
    """Samples for which full precision chooses another class; None where that is not trained."""
    disagreements: list[Disagreement] = field(default_factory=list)


@dataclass(frozen=True)
class Choices:
    """Of all views, on the same samples."""

    samples: int
    classes: list[str]
    views: dict[str, ViewChoices]


@torch.no_grad()
def choices_of(subject: Subject) -> Choices:
    """Of the validation samples; raises InputError if their targets are no classes."""
    problem, done = subject.problem, 0
    views: dict[str, ViewChoices] = {}
    counts: dict[str, Counter[tuple[int, int]]] = {}
    classes = 0
    with evaluating(problem):
        for inputs, target in subject.held_out():
            outputs = problem.terms(inputs, target).outputs
            first = next(iter(outputs.values()))
            if first.dim() != 2 or not class_dims(first.shape, target):
                raise InputError("the targets are not one class for each sample")
            classes = first.shape[1]
            chosen = {view: output.argmax(1) for view, output in outputs.items()}
            for view, of_view in chosen.items():
                counts.setdefault(view, Counter()).update(zip(target.tolist(), of_view.tolist(), strict=True))
                into = views.setdefault(view, ViewChoices())
                if view != "full" and "full" in chosen:
                    _add(into, (inputs, target), chosen["full"], of_view, done, subject.to_picture or min_max)
            done += len(target)
    for view, confusions in counts.items():
        views[view].confusion = [(label, choice, count) for (label, choice), count in sorted(confusions.items())]
    names = list(subject.classes) or [str(number) for number in range(classes)]
    return Choices(done, names, views)


def _add(
    into: ViewChoices, batch: Pair, full: Tensor, low: Tensor, done: int, to_picture: Callable[[Tensor], Tensor]
) -> None:
    inputs, target = batch
    rows = torch.nonzero(full != low)[:, 0].tolist()
    into.differing = (into.differing or 0) + len(rows)
    for row in rows[: SHOWN - len(into.disagreements)]:
        is_picture = isinstance(inputs, Tensor) and inputs.dim() == 4 and inputs.shape[1] in (1, 3)
        picture = data_address(to_picture(inputs[row].cpu())) if is_picture else ""
        label, by_full, by_low = int(target[row]), int(full[row]), int(low[row])
        into.disagreements.append(Disagreement(done + row, label, by_full, by_low, picture))
