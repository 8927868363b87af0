"""What metrics and summaries of a run hold: an entry an epoch, with the scores and the evidence for every bound."""

from collections.abc import Mapping
from typing import Any


def scores_in(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Of an epoch or a summary, by view; they stand under the metric's name, "accuracy" in runs that name none."""
    scores: dict[str, Any] = entry[entry.get("metric", "accuracy")]
    return scores


def layer_multipliers(entry: Mapping[str, Any]) -> dict[str, float]:
    """By layer, of one epoch's entry of the metrics; empty without layer constraints."""
    return {bound["where"]: float(bound["multiplier"]) for bound in entry["constraints"] if bound["kind"] == "layer"}
