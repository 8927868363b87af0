"""`pdqat paper run` and `pdqat paper show`."""

import argparse
import fnmatch
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from pdqat.errors import InputError
from pdqat.paper.cells import Cell
from pdqat.paper.executors import Executor, LocalExecutor, RayExecutor, Resources
from pdqat.paper.matrix import Matrix, Status
from pdqat.paper.protocols import PROTOCOLS, Protocol
from pdqat.paper.suites import SUITES, cells


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    paper = commands.add_parser(
        "paper",
        help="reproduce the paper's tables and figures",
        description="Train the runs behind the tables and figures of the paper, and show them beside its numbers.",
    )
    actions = paper.add_subparsers(title="actions", required=True, metavar="ACTION")
    run = actions.add_parser(
        "run",
        help="train the runs of a suite",
        description="Train what is missing of a suite. Stop it at any time: the same command continues.",
    )
    run.set_defaults(command=_run)
    _add_suite(run)
    run.add_argument("--seeds", type=_count, metavar="N", help="seeds 0 to N-1 (default: the protocol's number)")
    run.add_argument("--only", metavar="GLOB", default="*", help="only cells whose name fits, such as '*-2bit-*'")
    run.add_argument("--jobs", type=_count, metavar="N", help="cells trained at once (default: 1; with Ray all it can)")
    run.add_argument("--executor", choices=("local", "ray"), default="local", help="where (default: local)")
    run.add_argument("--device", metavar="NAME", default="cpu", help="cpu, cuda, cuda:1, mps (default: cpu)")
    run.add_argument("--list", action="store_true", help="only print the cells and how far each is")
    show = actions.add_parser(
        "show",
        help="show a suite's tables and figures",
        description="Print the tables of what is finished; write them, figures and raw numbers into the folder.",
    )
    show.set_defaults(command=_show)
    _add_suite(show)


def _add_suite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", metavar="SUITE", choices=tuple(SUITES), help=", ".join(SUITES))
    about = "; ".join(f"{each.name}: {each.about}" for each in PROTOCOLS.values())
    parser.add_argument("--protocol", choices=tuple(PROTOCOLS), default="budget", help=f"{about} (default: budget)")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where runs and results are (default: results/paper)"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"a whole number above 0 is needed, not {text!r}")
    return int(text)


def _where(options: argparse.Namespace) -> tuple[Protocol, Path]:
    protocol = PROTOCOLS[options.protocol]
    usual = Path("results") / ("paper" if protocol.name == "budget" else f"paper-{protocol.name}")
    return protocol, options.folder or usual


def _chosen(options: argparse.Namespace, protocol: Protocol) -> list[Cell]:
    found = cells(options.suite, options.seeds or protocol.seeds)
    chosen = [cell for cell in found if fnmatch.fnmatch(cell.name, options.only)]
    if not chosen:
        names = ", ".join(cell.name for cell in found)
        raise InputError(f"no cell of {options.suite} fits --only {options.only!r}; the cells are {names}")
    return chosen


def _run(options: argparse.Namespace) -> None:
    protocol, folder = _where(options)
    chosen = _chosen(options, protocol)
    cores = os.cpu_count() or 1
    ray = options.executor == "ray"
    threads = 1 if ray else max(1, cores // (options.jobs or 1))
    matrix = Matrix(chosen, protocol, folder)
    console = Console()
    if options.list:
        for state in matrix.states():
            done = "finished" if state.finished else f"{state.done} of {state.epochs} epochs"
            console.print(f"{state.cell.name}: {done}", highlight=False)
        return
    resources = Resources(threads, options.device)
    executor: Executor = RayExecutor(options.jobs, resources) if ray else LocalExecutor(options.jobs or 1, resources)
    with MatrixProgress(console) as progress:
        matrix.run(executor, progress)
    seen = f"pdqat paper show {options.suite} --protocol {protocol.name} --folder {folder}"
    console.print(f"all {len(matrix.cells)} cells are finished; see them with: {seen}", highlight=False, markup=False)


def _show(options: argparse.Namespace) -> None:
    from pdqat.paper.show import show

    show(options.suite, *_where(options), Console())


class MatrixProgress:
    """A bar over all cells with an estimate of what is left, and one for every cell in training.

    Where bars can't be drawn, a line when a cell starts, ends an epoch or is finished.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
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
        self._live = Live(self._bars, console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

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
