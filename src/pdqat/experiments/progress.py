"""What `pdqat paper run` shows while it works."""

import time
from collections.abc import Sequence
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from pdqat.experiments.cells import Cell
from pdqat.experiments.matrix import Status
from pdqat.terminal import LiveDisplay, PlainConsole


class MatrixProgress(LiveDisplay):
    """A bar over all cells with an estimate of what is left, and one for every cell in training.

    Where bars can't be drawn, a line when a cell starts, ends an epoch or is finished.
    """

    def __init__(self, console: PlainConsole) -> None:
        self._began = time.monotonic()
        self._at_start: float | None = None
        self._left = ""
        self._epochs: dict[str, int] = {}
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=console,
        )
        self._all = self._bars.add_task("cells", total=None, left="")
        self._tasks: dict[str, Any] = {}
        super().__init__(console, self._bars)

    def update(self, states: Sequence[Status]) -> None:
        """Move the bars to where the cells are."""
        done, total = sum(state.work_done for state in states), sum(state.work for state in states)
        self._at_start = done if self._at_start is None else self._at_start
        new, elapsed = done - self._at_start, time.monotonic() - self._began
        self._left = f"about {_duration(elapsed * (total - done) / new)} left" if new > 0 and total > done else ""
        finished = sum(state.finished for state in states)
        self._bars.update(self._all, total=len(states), completed=finished, left=self._left)
        for state in states:
            name = state.cell.name
            if state.running and name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=state.epochs, left="")
            if not state.running and name in self._tasks:
                self._bars.remove_task(self._tasks.pop(name))
            if state.running:
                self._bars.update(self._tasks[name], completed=state.done)
                if not self._console.is_terminal and state.done > self._epochs.get(name, state.done):
                    self._say(
                        f"{name}: epoch {state.done} of {state.epochs}; {finished} of {len(states)} cells finished"
                    )
                self._epochs[name] = state.done

    def started(self, cell: Cell, done: int) -> None:
        """Print that a cell starts, or after which epoch it continues."""
        self._say(f"{cell.name}: " + (f"continues after epoch {done}" if done else "starts"))

    def finished(self, cell: Cell) -> None:
        """Print that a cell is finished."""
        self._say(f"{cell.name}: finished")

    def failed(self, cell: Cell, reason: str) -> None:
        """Print why a cell can't be trained."""
        self._say(f"{cell.name}: failed: {reason}")

    def _say(self, text: str) -> None:
        left = f", {self._left}" if self._left else ""
        self._console.print(text + left, soft_wrap=True)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "a minute"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
