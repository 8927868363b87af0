"""Callback: is told how a training goes. Subclass it and override what you want to hear of."""

from collections.abc import Sequence
from typing import Any

from pdqat.task import Problem
from pdqat.training.history import History


class Callback:
    """Does nothing.

    Examples:
        >>> class Print(Callback):
        ...     def epoch(self, entry):
        ...         print(entry["epoch"], entry["loss"])
    """

    def start(self, epochs: int, steps: int | None, done: int) -> None:
        """Training begins: `done` of `epochs` epochs are behind it, of `steps` batches each, None if unknown."""

    def busy(self, doing: str) -> None:
        """Something begins that is no step and takes a while, such as compiling."""

    def step(self, epoch: int, step: int, objective: float) -> None:
        """Some batches of an epoch are done; `objective` is the mean of what was minimised in it so far."""

    def epoch(self, entry: dict[str, Any]) -> None:
        """An epoch is done; `entry` is its line of the metrics."""

    def state(self, problem: Problem, entries: Sequence[dict[str, Any]]) -> None:
        """How it stands, after `start` and after every epoch: what is trained, and the entries of all epochs so far."""

    def finish(self, history: History) -> None:
        """The training is done, and its problem has the state of the best epoch."""
