"""What a training shows while it goes on."""

from typing import Any

from rich.console import Group
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pdqat.evidence import worst_slack
from pdqat.runs.entries import scores_in
from pdqat.terminal import LiveDisplay, PlainConsole, percent
from pdqat.training.callbacks import Callback


class TrainingProgress(LiveDisplay, Callback):
    """A bar with loss, score of every view and worst slack below; a line an epoch where it can't be drawn."""

    def __init__(self, console: PlainConsole) -> None:
        self._epochs = 0
        self._steps = 0
        self._measured = ""
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            expand=True,
        )
        self._task = self._bar.add_task("starting", total=None)
        super().__init__(console, self._bar)

    def start(self, epochs: int, steps: int | None, done: int) -> None:
        """Show an empty bar, or one that starts where the training was stopped."""
        self._epochs, self._steps = epochs, steps or 0
        if steps is not None:
            self._bar.update(self._task, total=epochs * steps, completed=done * steps)

    def step(self, epoch: int, step: int, objective: float) -> None:
        """Move the bar."""
        completed = (epoch - 1) * self._steps + step
        self._bar.update(self._task, completed=completed, description=f"epoch {epoch}/{self._epochs}")
        self._live.update(Group(self._bar, f"objective {objective:.3f}{self._measured}"))

    def epoch(self, entry: dict[str, Any]) -> None:
        """Show what validation measured."""
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
            self._console.print(line, soft_wrap=True)
