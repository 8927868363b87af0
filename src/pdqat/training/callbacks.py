"""Callback: is told how a training goes. Subclass it and override what you want to hear of."""

from typing import Any


class Callback:
    """Does nothing.

    Examples:
        >>> class Print(Callback):
        ...     def epoch(self, entry):
        ...         print(entry["epoch"], entry["loss"])
    """

    def start(self, epochs: int, steps: int | None, done: int) -> None:
        """Training begins: `done` of `epochs` epochs are behind it, of `steps` batches each, None if unknown."""

    def step(self, epoch: int, step: int, objective: float) -> None:
        """Some batches of an epoch are done; `objective` is the mean of what was minimised in it so far."""

    def epoch(self, entry: dict[str, Any]) -> None:
        """An epoch is done; `entry` is its line of the metrics."""
