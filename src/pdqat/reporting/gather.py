"""Every section of a report as one JSON document, which the page draws and offers for download."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from pdqat.errors import InputError
from pdqat.reporting.choices import choices_of
from pdqat.reporting.constraints import constraints_of
from pdqat.reporting.frontier import frontier_of
from pdqat.reporting.histograms import histograms_of
from pdqat.reporting.history import history_of
from pdqat.reporting.noise import noise_of
from pdqat.reporting.plan import plan_of
from pdqat.reporting.provenance import provenance_of
from pdqat.reporting.ranking import rankings_of
from pdqat.reporting.scores import scores_of
from pdqat.reporting.size import sizes_of
from pdqat.reporting.subject import Subject
from pdqat.reporting.verification import verification_of
from pdqat.version import __version__

FORMAT = 1
DIGITS = 6
"""Significant ones, of numbers that are not whole."""
Tell = Callable[[str], None]

SECTIONS: dict[str, Callable[[Subject], Any]] = {
    "scores": scores_of,
    "history": history_of,
    "constraints": constraints_of,
    "ranking": rankings_of,
    "plan": plan_of,
    "frontier": frontier_of,
    "histograms": histograms_of,
    "noise": noise_of,
    "size": sizes_of,
    "choices": choices_of,
    "verification": verification_of,
    "provenance": provenance_of,
}
"""By their names in the document. One that does not apply raises InputError, and the page says why it is not there."""


def document(subjects: Sequence[Subject], tell: Tell) -> dict[str, Any]:
    """What the page shows, in plain values that JSON has."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"format": FORMAT, "pdqat": __version__, "made": made, "runs": [_run(subject, tell) for subject in subjects]}


def _run(subject: Subject, tell: Tell) -> dict[str, Any]:
    sections: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, section in SECTIONS.items():
        tell(f"{subject.name}: {name}")
        try:
            sections[name] = plain(section(subject))
        except InputError as error:
            missing[name] = str(error)
    return {"name": subject.name, "about": dict(subject.about), **sections, "missing": missing}


def plain(value: Any) -> Any:
    """Dataclasses as dictionaries, numbers with the digits that a reader needs, and none that JSON lacks.

    >>> plain({"slack": 1 / 3, "limit": float("inf")})
    {'slack': 0.333333, 'limit': None}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
