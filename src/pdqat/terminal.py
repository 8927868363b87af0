"""What the command line shows: a progress bar while training, tables at the end."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table


class TrainingProgress:
    """A bar with epoch, loss, accuracy of every view and the worst slack; one line an epoch where it can't be drawn."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._steps = 0
        self._epochs = 0
        self._last = ""
        self._task: TaskID | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> "TrainingProgress":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def start(self, epochs: int, steps: int, done: int) -> None:
        """Show an empty bar, or one that starts where the run was stopped."""
        self._epochs, self._steps = epochs, steps
        self._task = self._progress.add_task("starting", total=epochs * steps, completed=done * steps)

    def step(self, epoch: int, step: int, loss: float) -> None:
        """Move the bar."""
        assert self._task is not None
        description = f"epoch {epoch}/{self._epochs}  loss {loss:.4f}{self._last}"
        self._progress.update(self._task, completed=(epoch - 1) * self._steps + step, description=description)

    def epoch(self, entry: dict[str, Any]) -> None:
        """Show what validation found."""
        self._last = "".join(f"  {view} {percent(value)}" for view, value in entry["accuracy"].items())
        slacks = [_worst(each["slack"]) for each in entry["constraints"]]
        if slacks:
            self._last += f"  worst slack {max(slacks):+.3f}"
        if not self._console.is_terminal:
            line = f"epoch {entry['epoch']}/{self._epochs}  loss {entry['loss']:.4f}{self._last}"
            self._console.print(line, soft_wrap=True, highlight=False)


def show_summary(console: Console, summary: dict[str, Any], folder: str) -> None:
    """The tables at the end of a run."""
    accuracy = Table(title="accuracy", title_justify="left")
    accuracy.add_column("view")
    for part in ("validation", "test"):
        accuracy.add_column(part, justify="right")
    for view, parts in summary["accuracy"].items():
        accuracy.add_row(
            "full precision" if view == "full" else view, percent(parts["validation"]), percent(parts["test"])
        )
    console.print(accuracy)
    if summary["constraints"]:
        console.print(_constraint_table(summary["constraints"]))
    console.print(
        f"{summary['method']}, model of epoch {summary['chosen_epoch']} of {summary['epochs']}, "
        f"{summary['parameters']:,} parameters, {summary['seconds']:.0f} s of training",
        highlight=False,
    )
    console.print(f"run folder: {folder}", highlight=False, soft_wrap=True)


def show_evaluation(
    console: Console, accuracy: dict[str, float], constraints: Sequence[dict[str, Any]], part: str
) -> None:
    """The tables of `pdqat eval`."""
    table = Table(title=f"accuracy on {part} images", title_justify="left")
    table.add_column("view")
    table.add_column("accuracy", justify="right")
    for view, value in accuracy.items():
        table.add_row("full precision" if view == "full" else view, percent(value))
    console.print(table)
    if constraints:
        console.print(_constraint_table(constraints))


def percent(value: float) -> str:
    """An accuracy as people write it."""
    return f"{100 * value:.2f}%"


def _constraint_table(constraints: Sequence[dict[str, Any]]) -> Table:
    several_views = len({each["view"] for each in constraints}) > 1
    table = Table(title="constraints: mean distance <= tolerance", title_justify="left")
    table.add_column("constraint", no_wrap=True)
    if several_views:
        table.add_column("view")
    for heading in ("tolerance", "distance", "slack", "multiplier"):
        table.add_column(heading, justify="right")
    table.add_column("satisfied")
    for each in constraints:
        where = each["where"] or each["kind"]
        if each["kind"] == "channel":
            where += f" (worst of {len(each['slack'])} channels)"
        worst = _worst_index(each["slack"])
        row = [where, each["view"]] if several_views else [where]
        row += [f"{each['tolerance']:.4f}", f"{_at(each['distance'], worst):.4f}", f"{_at(each['slack'], worst):+.4f}"]
        row += [f"{_at(each['multiplier'], worst):.4f}", "yes" if each["satisfied"] else "[bold]no[/bold]"]
        table.add_row(*row)
    return table


def _worst(slack: float | list[float]) -> float:
    return max(slack) if isinstance(slack, list) else slack


def _worst_index(slack: float | list[float]) -> int:
    return slack.index(max(slack)) if isinstance(slack, list) else 0


def _at(value: float | list[float], index: int) -> float:
    return value[index] if isinstance(value, list) else value
