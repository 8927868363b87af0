"""History: what `fit` returns."""

from dataclasses import dataclass, field
from typing import Any

from pdqat.runs.entries import scores_in
from pdqat.task import Problem
from pdqat.terminal import as_text
from pdqat.training.summary import summary_parts


@dataclass(frozen=True)
class History:
    """How a training went. `print` shows the table of scores and the evidence for every constraint."""

    problem: Problem = field(repr=False)
    """With the state of the best epoch. It is the problem that was given, unless bits were chosen anew on the way."""
    epochs: list[dict[str, Any]] = field(repr=False)
    """An entry an epoch: loss, objective, scores, and every bound's distance, slack and multiplier."""
    summary: dict[str, Any]
    """Of the best epoch's model: scores by view and part, constraints, plans, seconds, versions."""

    @property
    def scores(self) -> dict[str, Any]:
        """Of the best epoch's model, by view and part of the data."""
        return scores_in(self.summary)

    def __str__(self) -> str:
        return as_text(summary_parts(self.summary))
