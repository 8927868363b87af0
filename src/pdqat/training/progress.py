"""What a training shows while it goes on."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rich.console import Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from pdqat.evidence import worst_slack
from pdqat.runs.entries import scores_in
from pdqat.terminal import LiveDisplay, PlainConsole, percent
from pdqat.training.callbacks import Callback


class TrainingProgress(LiveDisplay, Callback):
    """A bar with loss, score of every view and worst slack below; a line an epoch where it can't be drawn.

    The time left goes by the steps of this sitting, with the validations between them and without what came before the
    first of them, such as compiling. An early stop is not foreseen.

    Args:
        console: where to show it.
        clock: what tells seconds.
    """

    def __init__(self, console: PlainConsole, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._epochs = 0
        self._steps = 0
        self._done = 0
        self._first: tuple[float, int] | None = None
        self._left = ""
        self._measured = ""
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=console,
            expand=True,
        )
        self._task = self._bar.add_task("starting", total=None, left="")
        super().__init__(console, self._bar)

    def start(self, epochs: int, steps: int | None, done: int) -> None:
        """Show an empty bar, or one that starts where the training was stopped."""
        self._epochs, self._steps, self._done = epochs, steps or 0, done * (steps or 0)
        if steps is not None:
            self._bar.update(self._task, total=epochs * steps, completed=self._done)

    def busy(self, doing: str) -> None:
        """Say that nothing moves for now, and why."""
        self._bar.update(self._task, description=doing)
        if not self._console.is_terminal:
            self._console.print(f"{doing}, which takes a while")

    def step(self, epoch: int, step: int, objective: float) -> None:
        """Move the bar."""
        self._done = (epoch - 1) * self._steps + step
        self._estimate()
        self._bar.update(
            self._task, completed=self._done, description=f"epoch {epoch}/{self._epochs}", left=self._left.strip()
        )
        self._live.update(Group(self._bar, f"objective {objective:.3f}{self._measured}"))

    def epoch(self, entry: dict[str, Any]) -> None:
        """Show what validation measured."""
        if not self._steps:  # only now it is known how many batches there are
            self._steps, self._first = self._done, None
            self._done = entry["epoch"] * self._steps
            self._bar.update(self._task, total=self._epochs * self._steps, completed=self._done)
        self._estimate()
        if "bits_chosen_by" in entry:
            text = f"bits chosen by {entry['bits_chosen_by']} before epoch {entry['epoch']}"
            self._console.print(text)
        for name in entry.get("flat_inputs", ()):
            text = f"all that {name} reads is outside of its quantiser's range: it passes nothing on"
            self._console.print(text, soft_wrap=True)
        is_accuracy = entry["metric"] == "accuracy"
        scores = "".join(
            f"  {view} {percent(score) if is_accuracy else f'{score:.4g}'}" for view, score in scores_in(entry).items()
        )
        slacks = [worst_slack(bound) for bound in entry["constraints"]]
        slack = f"  worst slack {max(slacks):+.3f}" if slacks else ""
        self._measured = f"  loss {entry['loss']:.3f}{scores}{slack}"
        if not self._console.is_terminal:
            line = f"epoch {entry['epoch']}/{self._epochs}  objective {entry['objective']:.3f}{self._measured}"
            self._console.print(f"{line}{self._left}", soft_wrap=True)

    def _estimate(self) -> None:
        """The time left, once two reports tell how long a step takes."""
        now, rest = self._clock(), self._epochs * self._steps - self._done
        if self._first is None:
            self._first = now, self._done
        since, before = self._first
        is_known = rest > 0 and self._done > before
        self._left = (
            f"  {timedelta(seconds=round((now - since) / (self._done - before) * rest))} left" if is_known else ""
        )
