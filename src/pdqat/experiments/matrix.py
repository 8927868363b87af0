"""Matrix: works through cells until all are finished, however often it is stopped.

A cell is a run folder. Finished ones are skipped, begun ones continued; a cell that another process trains is waited
for, since its folder is locked. A cell whose layers follow from another cell's multipliers waits for that one.
"""

import dataclasses
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol as Interface

from pdqat.config.train_config import Method
from pdqat.errors import InputError
from pdqat.experiments.cells import Cell
from pdqat.experiments.executors import LOG, Executor, Job
from pdqat.experiments.protocol import Protocol
from pdqat.experiments.results import entries
from pdqat.experiments.train_cell import BUSY
from pdqat.runs.folder import BusyError

POLL_SECONDS = 1.0
COST = {Method.FULL: 1.0, Method.STE: 1.3, Method.PDQAT_OUTPUT: 2.0, Method.PDQAT_LAYERS: 2.3}
"""What an epoch costs, in epochs of full precision, for the estimate of what is left."""


@dataclass
class Status:
    """How far a cell is."""

    cell: Cell
    epochs: int
    done: int
    running: bool
    finished: bool

    @property
    def work(self) -> float:
        """The cost of the whole cell, in epochs of full precision."""
        return self.epochs * COST[self.cell.method]

    @property
    def work_done(self) -> float:
        """The part of that cost which is behind, in epochs of full precision."""
        return self.done * COST[self.cell.method]


class Observer(Interface):
    """Is told how the matrix goes."""

    def update(self, states: Sequence[Status]) -> None:
        """Called about once a second."""

    def started(self, cell: Cell, done: int) -> None:
        """A cell starts, with so many epochs behind it."""

    def finished(self, cell: Cell) -> None:
        """A cell is finished."""

    def failed(self, cell: Cell, reason: str) -> None:
        """A cell can't be trained."""


class Matrix:
    """Cells of one protocol in one folder; with `amp` those that start now are trained in bfloat16 to their end."""

    def __init__(self, cells: Sequence[Cell], protocol: Protocol, folder: Path, amp: bool = False) -> None:
        self.cells = _with_needed(cells)
        self.protocol = protocol
        self.folder = folder
        self._amp = amp
        self._failed: dict[str, str] = {}

    def run(self, executor: Executor, observer: Observer) -> None:
        """Train all that is missing; raises InputError at the end if some cells failed."""
        self.check()
        for cell in self._to_look_at():
            try:
                entries([cell], self.protocol, self.folder)
            except InputError as error:
                self._fail(cell, str(error), observer)
        jobs: dict[str, tuple[Cell, Job]] = {}
        try:
            while True:
                for name, (cell, job) in list(jobs.items()):
                    if self._has_ended(cell, job, observer):
                        del jobs[name]
                waiting = [cell for cell in self.cells if not self._is_over(cell) and cell.name not in jobs]
                if not waiting and not jobs:
                    break
                for cell in waiting:
                    if len(jobs) < executor.jobs and self._is_ready(cell, observer):
                        observer.started(cell, self._status(cell, True).done)
                        jobs[cell.name] = cell, executor.start(cell.run(self.folder).path)
                observer.update(self.states(running=jobs))
                time.sleep(POLL_SECONDS)
        finally:
            for _, job in jobs.values():
                job.stop()
        observer.update(self.states())
        if self._failed:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self._failed.items())
            raise InputError(f"{len(self._failed)} of {len(self.cells)} cells failed: {reasons}")

    def check(self) -> None:
        """Raise InputError if a finished cell was trained under another protocol."""
        for cell in self._to_look_at():
            cell.check(self.protocol, self.folder)

    def _to_look_at(self) -> list[Cell]:
        """The finished cells, but for those whose layers can't be known before another one is trained again."""
        finished = [cell for cell in self.cells if cell.is_finished(self.folder)]
        return [cell for cell in finished if cell.needs is None or cell.needs.is_finished(self.folder)]

    def states(self, running: Container[str] = ()) -> list[Status]:
        """How far every cell is; `running` are the names of those in training."""
        return [self._status(cell, cell.name in running) for cell in self.cells]

    def _is_over(self, cell: Cell) -> bool:
        return cell.is_finished(self.folder) or cell.name in self._failed

    def _is_ready(self, cell: Cell, observer: Observer) -> bool:
        """Whether a cell can start now; its folder is made then, with the configuration in it."""
        try:
            needed = cell.needs
            if needed is not None and needed.name in self._failed:
                raise InputError(f"it needs {needed.name}")
            if needed is not None and not needed.is_finished(self.folder):
                return False
            cell.check(self.protocol, self.folder)
            run = cell.run(self.folder)
            weights_of = cell.taught_by or (None if run.last.exists() else cell.starts_from)
            if weights_of is not None and not weights_of.run(self.folder).best.exists():
                raise InputError(
                    f"it needs the weights of {weights_of.run(self.folder).path}, which has no best.pt (results are "
                    "kept without checkpoints); remove that folder to train it again"
                )
            run.path.mkdir(parents=True, exist_ok=True)
            with run.locked():
                if not run.config_file.exists():
                    config = dataclasses.replace(cell.config(self.protocol, self.folder), amp=self._amp)
                    run.write_options(config.as_options())
        except BusyError:
            return False
        except InputError as error:
            self._fail(cell, str(error), observer)
            return False
        return True

    def _has_ended(self, cell: Cell, job: Job, observer: Observer) -> bool:
        """Whether a cell's job is over; the observer is told how it went."""
        try:
            code = job.ended()
        except InputError as error:
            self._fail(cell, str(error), observer)
            return True
        if code == 0:
            observer.finished(cell)
        elif code is not None and code != BUSY:
            log = cell.run(self.folder).path / LOG
            lines = log.read_text(errors="replace").split("\n") if log.exists() else []
            said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
            how = f"it was ended by signal {-code}" if code < 0 else said.removeprefix("pdqat: ")
            self._fail(cell, how, observer)
        return code is not None

    def _fail(self, cell: Cell, reason: str, observer: Observer) -> None:
        self._failed[cell.name] = reason
        observer.failed(cell, reason)

    def _status(self, cell: Cell, running: bool) -> Status:
        run, finished = cell.run(self.folder), cell.is_finished(self.folder)
        kept = run.metrics_file.exists() and (finished or run.last.exists())  # without it training starts anew
        done = run.metrics_file.read_bytes().count(b"\n") if kept else 0
        return Status(cell, cell.epochs(self.protocol), done, running, finished)


def _with_needed(cells: Sequence[Cell]) -> list[Cell]:
    """Every cell once, after the one that it needs."""
    by_name: dict[str, Cell] = {}
    for cell in cells:
        if cell.needs is not None:
            by_name.setdefault(cell.needs.name, cell.needs)
        by_name.setdefault(cell.name, cell)
    return list(by_name.values())
