"""What `pdqat paper run` shows while it works."""

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from pdqat.paper.cells import Cell
from pdqat.paper.matrix import Status
from pdqat.terminal import LiveDisplay


class MatrixProgress(LiveDisplay):
    """A bar over all cells with an estimate of what is left, and one for every cell in training.

    Where bars can't be drawn, a line when a cell starts, ends an epoch or is finished.
    """

    def __init__(self, console: Console) -> None:
        self._began = time.monotonic()
        self._at_start: float | None = None
        self._left = ""
        self._epochs: dict[str, int] = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
        )
        self._all = self._bars.add_task("cells", total=None, left="")
        self._tasks: dict[str, Any] = {}
        super().__init__(console, self._bars)

    def update(self, states: Sequence[Status]) -> None:
        """Move the bars."""
        done, total = sum(each.work_done for each in states), sum(each.work for each in states)
        self._at_start = done if self._at_start is None else self._at_start
        new, elapsed = done - self._at_start, time.monotonic() - self._began
        self._left = f"about {_duration(elapsed * (total - done) / new)} left" if new > 0 and total > done else ""
        finished = sum(each.finished for each in states)
        self._bars.update(self._all, total=len(states), completed=finished, left=self._left)
        for each in states:
            name = each.cell.name
            if each.running and name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=each.epochs, left="")
            if not each.running and name in self._tasks:
                self._bars.remove_task(self._tasks.pop(name))
            if each.running:
                self._bars.update(self._tasks[name], completed=each.done)
                if not self._console.is_terminal and each.done > self._epochs.get(name, each.done):
                    self._say(f"{name}: epoch {each.done} of {each.epochs}; {finished} of {len(states)} cells finished")
                self._epochs[name] = each.done

    def started(self, cell: Cell, done: int) -> None:
        """Say so."""
        self._say(f"{cell.name}: " + (f"continues after epoch {done}" if done else "starts"))

    def finished(self, cell: Cell) -> None:
        """Say so."""
        self._say(f"{cell.name}: finished")

    def failed(self, cell: Cell, reason: str) -> None:
        """Say why."""
        self._say(f"{cell.name}: failed: {reason}")

    def _say(self, text: str) -> None:
        left = f", {self._left}" if self._left else ""
        self._console.print(text + left, highlight=False, markup=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "a minute"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
