"""What was trained, how and for how long, by label: the lines at the top of a report."""

from collections.abc import Mapping
from typing import Any


def about_training(summary: Mapping[str, Any]) -> dict[str, str]:
    """What a summary says of it."""
    rows = {"method": summary.get("method")}
    if "chosen_epoch" in summary:
        rows["epochs"] = f"{summary['epochs']}, model of epoch {summary['chosen_epoch']}"
    if "parameters" in summary:
        rows["parameters"] = f"{summary['parameters']:,}"
    if "seconds" in summary:
        rows["training time"] = duration(summary["seconds"])
    if "budget" in summary:
        rows["budget"] = "{used} of {limit}".format(**summary["budget"])
    return {label: str(text) for label, text in rows.items() if text is not None}


def duration(seconds: float) -> str:
    """In the two largest units.

    >>> duration(75), duration(7300)
    ('1 min 15 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
