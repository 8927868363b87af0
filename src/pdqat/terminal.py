"""What the command line shows: a progress bar while training, tables at the end."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

UNLIMITED = 1000
"""Columns in which any table fits."""


class LiveDisplay:
    """Something that moves at the bottom of the terminal while a block runs; nothing where there is no terminal."""

    def __init__(self, console: Console, shown: Progress) -> None:
        self._console = console
        self._live = Live(shown, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


class TrainingProgress(LiveDisplay):
    """A bar with loss, accuracy of every view and worst slack below; a line an epoch where it can't be drawn."""

    def __init__(self, console: Console) -> None:
        self._epochs = 0
        self._steps = 0
        self._found = ""
        self._bar = Progress(
            TextColumn("{task.description}"),
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

    def start(self, epochs: int, steps: int, done: int) -> None:
        """Show an empty bar, or one that starts where the run was stopped."""
        self._epochs, self._steps = epochs, steps
        self._bar.update(self._task, total=epochs * steps, completed=done * steps)

    def step(self, epoch: int, step: int, objective: float) -> None:
        """Move the bar."""
        completed = (epoch - 1) * self._steps + step
        self._bar.update(self._task, completed=completed, description=f"epoch {epoch}/{self._epochs}")
        self._live.update(Group(self._bar, f"objective {objective:.3f}{self._found}"))

    def epoch(self, entry: dict[str, Any]) -> None:
        """Show what validation found."""
        if "bits_chosen_by" in entry:
            text = f"bits chosen by {entry['bits_chosen_by']} before epoch {entry['epoch']}"
            self._console.print(text, highlight=False)
        accuracy = "".join(f"  {view} {percent(value)}" for view, value in entry["accuracy"].items())
        slacks = [_worst(each["slack"]) for each in entry["constraints"]]
        slack = f"  worst slack {max(slacks):+.3f}" if slacks else ""
        self._found = f"  loss {entry['loss']:.3f}{accuracy}{slack}"
        if not self._console.is_terminal:
            line = f"epoch {entry['epoch']}/{self._epochs}  objective {entry['objective']:.3f}{self._found}"
            self._console.print(line, soft_wrap=True, highlight=False)


def show_summary(console: Console, summary: dict[str, Any], folder: str) -> None:
    """The tables at the end of a run."""
    accuracy = new_table("accuracy")
    accuracy.add_column("view")
    for part in ("validation", "test"):
        accuracy.add_column(part, justify="right")
    for view, parts in summary["accuracy"].items():
        accuracy.add_row(
            "full precision" if view == "full" else view, percent(parts["validation"]), percent(parts["test"])
        )
    console.print(accuracy)
    _show_constraints(console, summary["constraints"], summary["plans"])
    if "budget" in summary:
        console.print("budget: {used} of {limit}".format(**summary["budget"]), highlight=False)
    console.print(
        f"{summary['method']}, model of epoch {summary['chosen_epoch']} of {summary['epochs']}, "
        f"{summary['parameters']:,} parameters, {summary['seconds']:.0f} s of training",
        highlight=False,
    )
    console.print(f"run folder: {folder}", highlight=False, soft_wrap=True, markup=False)


def show_evaluation(
    console: Console,
    accuracy: dict[str, float],
    constraints: Sequence[dict[str, Any]],
    plans: Mapping[str, Mapping[str, str]],
    part: str,
) -> None:
    """The tables of `pdqat eval`."""
    table = new_table(f"accuracy on {part} images")
    table.add_column("view")
    table.add_column("accuracy", justify="right")
    for view, value in accuracy.items():
        table.add_row("full precision" if view == "full" else view, percent(value))
    console.print(table)
    _show_constraints(console, constraints, plans)


def percent(value: float) -> str:
    """An accuracy as people write it."""
    return f"{100 * value:.2f}%"


def new_table(title: str = "") -> Table:
    """In the style that all tables of the command line have."""
    return Table(
        title=f"[bold]{title}[/bold]" if title else None,
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def print_whole(console: Console, table: Table) -> None:
    """Without a word cut, also where the terminal is narrower than the table."""
    usual = console.width
    console.width = max(usual, Console(width=UNLIMITED).measure(table).maximum)
    console.print(table)
    console.width = usual


def _show_constraints(
    console: Console, constraints: Sequence[dict[str, Any]], plans: Mapping[str, Mapping[str, str]]
) -> None:
    """A table for every view, narrow enough for 80 columns."""
    views = list(dict.fromkeys(each["view"] for each in constraints))
    for view in views:
        title = f"constraints of {view}" if len(views) > 1 else "constraints"
        found = [each for each in constraints if each["view"] == view]
        console.print(_constraint_table(title, found, plans[view]))


def _constraint_table(title: str, constraints: Sequence[dict[str, Any]], plan: Mapping[str, str]) -> Table:
    of_channels = any(each["kind"] == "channel" for each in constraints)
    table = new_table(f"{title}: mean distance <= tolerance" + (", worst channel of each layer" if of_channels else ""))
    table.add_column("constraint", overflow="fold")
    is_mixed = len(set(plan.values())) > 1
    if is_mixed:
        table.add_column("bits", no_wrap=True)
    for heading in ("tolerance", "distance", "slack", "multiplier"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("satisfied", no_wrap=True)
    for each in constraints:
        worst = _worst_index(each["slack"])
        row = [each["where"] or each["kind"]]
        row += [plan.get(each["where"], "")] if is_mixed else []
        row += [
            _number(_at(each["tolerance"], worst)),
            _number(_at(each["distance"], worst)),
            _number(_at(each["slack"], worst), "+"),
        ]
        row += [_number(_at(each["multiplier"], worst)), "yes" if each["satisfied"] else "[bold]no[/bold]"]
        table.add_row(*row)
    return table


def _number(value: float, sign: str = "") -> str:
    """Four decimals, or two digits where these would show nothing."""
    return f"{value:{sign}.4f}" if value == 0 or abs(value) >= 0.0005 else f"{value:{sign}.1e}"


def _worst(slack: float | list[float]) -> float:
    return max(slack) if isinstance(slack, list) else slack


def _worst_index(slack: float | list[float]) -> int:
    return slack.index(max(slack)) if isinstance(slack, list) else 0


def _at(value: float | list[float], index: int) -> float:
    return value[index] if isinstance(value, list) else value
