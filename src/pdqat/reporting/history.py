"""How the training went: scores and losses, and every bound's multiplier, slack and distance, epoch by epoch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pdqat.errors import InputError
from pdqat.evidence import Entry
from pdqat.reporting.constraints import at_worst
from pdqat.reporting.subject import Subject
from pdqat.runs.entries import scores_in

Series = list[float | None]
"""A number an epoch; None where there is none."""


@dataclass(frozen=True)
class BoundHistory:
    """Of one bound; of one per channel, that of the channel with the largest slack."""

    name: str
    multiplier: Series
    slack: Series
    distance: Series


@dataclass(frozen=True)
class TrainingHistory:
    """An entry an epoch in every series."""

    epochs: list[int]
    chosen: int | None
    """The epoch whose model was chosen."""
    objective: Series
    loss: Series
    scores: dict[str, Series]
    flip_rate: Series
    bits_chosen: list[int]
    """The epochs before which bits were chosen under a budget."""
    bounds: list[BoundHistory]


def history_of(subject: Subject) -> TrainingHistory:
    """Of the metrics."""
    entries = subject.epochs
    if not entries:
        raise InputError("the training's history was not given: `history=` takes what `pdqat.fit` returned")
    views = dict.fromkeys(view for entry in entries for view in scores_in(entry))
    by_epoch = [{bound["name"]: bound for bound in entry["constraints"]} for entry in entries]
    names = dict.fromkeys(name for bounds in by_epoch for name in bounds)
    return TrainingHistory(
        [entry["epoch"] for entry in entries],
        subject.summary.get("chosen_epoch"),
        _series(entries, "objective"),
        _series(entries, "loss"),
        {view: [scores_in(entry).get(view) for entry in entries] for view in views},
        _series(entries, "flip_rate"),
        [entry["epoch"] for entry in entries if "bits_chosen_by" in entry],
        [_of_bound(name, [bounds.get(name) for bounds in by_epoch]) for name in names],
    )


def _series(entries: Sequence[Entry], key: str) -> Series:
    return [entry.get(key) for entry in entries]


def _of_bound(name: str, entries: Sequence[Any]) -> BoundHistory:
    worst = [None if entry is None else at_worst(entry) for entry in entries]
    return BoundHistory(
        name,
        *([None if it is None else it[key] for it in worst] for key in ("multiplier", "slack", "distance")),
    )
