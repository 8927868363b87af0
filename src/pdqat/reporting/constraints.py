"""Every bound with its evidence: violated, active (met with less than a tenth of its tolerance to spare), satisfied."""

from dataclasses import dataclass

from pdqat.errors import InputError
from pdqat.evidence import Entry
from pdqat.reporting.subject import Subject

EDGE = 0.1
"""The part of its tolerance within which a bound that is met counts as active."""


@dataclass(frozen=True)
class ConstraintRow:
    """Of one bound; of one per channel, that of the channel with the largest slack."""

    name: str
    kind: str
    where: str
    view: str
    bits: str
    tolerance: float
    distance: float
    slack: float
    multiplier: float
    state: str
    """violated, active or satisfied."""
    channels: int


def constraints_of(subject: Subject) -> list[ConstraintRow]:
    """Of the summary, in its order."""
    summary = subject.summary
    if not summary["constraints"]:
        raise InputError("the problem was trained without constraints")
    rows = []
    for entry in summary["constraints"]:
        worst = at_worst(entry)
        view = entry.get("view", "")
        bits = summary["plans"].get(view, {}).get(entry["where"], "")
        channels = len(entry["distance"]) if isinstance(entry["distance"], list) else 1
        name = entry.get("name", entry["where"] or entry["kind"])
        rows.append(
            ConstraintRow(
                name, entry["kind"], entry["where"], view, bits, **worst, state=_state(worst), channels=channels
            )
        )
    return rows


def _state(bound: dict[str, float]) -> str:
    if bound["slack"] > 0:
        return "violated"
    return "active" if bound["slack"] >= -EDGE * bound["tolerance"] else "satisfied"


def at_worst(entry: Entry) -> dict[str, float]:
    """Tolerance, distance, slack and multiplier of the channel with the largest slack, or of the one bound."""
    slack = entry["slack"]
    worst = slack.index(max(slack)) if isinstance(slack, list) else 0
    keys = ("tolerance", "distance", "slack", "multiplier")
    return {key: entry[key][worst] if isinstance(entry[key], list) else entry[key] for key in keys}
