"""What metrics and summaries of a run hold: an entry an epoch, with the scores and the evidence for every bound."""

from collections.abc import Mapping
from typing import Any

EVIDENCE = ("kind", "where", "tolerance", "distance", "slack", "multiplier")
"""What summary and metrics say of every bound."""


def scores_in(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Of an epoch or a summary, by view; they stand under the metric's name, "accuracy" in runs that name none."""
    scores: dict[str, Any] = entry[entry.get("metric", "accuracy")]
    return scores


def layer_multipliers(entry: Mapping[str, Any]) -> dict[str, float]:
    """By layer, of one epoch's entry of the metrics; empty without layer constraints."""
    return {bound["where"]: float(bound["multiplier"]) for bound in entry["constraints"] if bound["kind"] == "layer"}


def has_evidence(content: Any) -> bool:
    """Whether it holds bounds with all that is known of each; numbers, or a list of them for channels."""
    bounds = content.get("constraints") if isinstance(content, dict) else None
    return isinstance(bounds, list) and all(
        isinstance(bound, dict)
        and all(isinstance(bound.get(key), str if key in ("kind", "where") else int | float | list) for key in EVIDENCE)
        and (bound["kind"] != "layer" or isinstance(bound["multiplier"], int | float))
        for bound in bounds
    )
