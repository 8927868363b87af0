"""Run: the folder of a training run, from which every later command starts. Its format is in docs/run-folder.md.

It knows what is on disk and builds no network: what a configuration means is the business of `pdqat.config`, what a
description of an own model's problem means that of `pdqat.description`.
"""

import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import tomli_w

if sys.platform != "win32":
    import fcntl

from pdqat.disk import sync_folder, write_atomically
from pdqat.errors import InputError
from pdqat.runs.forms import MeasuredForm, OfferForm, ProblemForm, read_entry, read_json, read_summary, read_toml
from pdqat.runs.seal import OWN_FILES, Seal


class BusyError(InputError):
    """Another process trains the run."""


class Run:
    """Paths and contents of a run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.toml"
        """The options of a run of the command line."""
        self.problem_file = path / "problem.json"
        """The description of the problem, in a run of own code."""
        self.example = path / "example.pt"
        """The example input beside that description."""
        self.commands_file = path / "command.txt"
        """The commands that trained the run, one a line."""
        self.report_file = path / "report.html"
        self.metrics_file = path / "metrics.jsonl"
        self.summary_file = path / "summary.json"
        self.measured_file = path / "measured.json"
        """Of a cell of a suite: what a folder with it has been measured to be."""
        self.offer_file = path / "offer.json"
        """What was measured for plans."""
        self.last = path / "last.pt"
        self.best = path / "best.pt"
        self.seal = Seal(path)

    @classmethod
    def create(cls, path: Path, write_first: Callable[[Self], None]) -> Self:
        """A new run folder, which appears with its first files in it or not at all; nothing that exists is touched."""
        check_new(path)
        hidden = path.parent / f".new-run-{uuid.uuid4().hex[:8]}"
        try:
            try:
                hidden.mkdir(parents=True)
                write_first(cls(hidden))
                hidden.rename(path)
            except BaseException:
                shutil.rmtree(hidden, ignore_errors=True)
                raise
        except InputError as error:
            raise InputError(str(error).replace(str(hidden), str(path))) from error
        except OSError as error:
            check_new(path)  # which may be another process's by now
            raise InputError(f"can't make the run folder {path}: {error.strerror or error}") from error
        sync_folder(path.parent)
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing run folder, of the command line or of own code."""
        if not is_run(path):
            raise InputError(f"{path} is not a run folder: it has no config.toml and no problem.json")
        return cls(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training this run. A process that is killed lets go by itself."""
        if sys.platform == "win32":  # which has no such locks: two processes on one folder are not noticed
            yield
            return
        file = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BusyError(f"the run {self.path} is being trained by another process") from None
            yield
        finally:
            os.close(file)

    @property
    def starts_anew(self) -> str | None:
        """What is said of a run that was trained before, but has no state to go on from; None for any other."""
        if self.last.exists() or not (self.metrics_file.exists() or self.best.exists()):
            return None
        return f"{self.last} is not there: the training starts anew, from its first epoch"

    def options(self) -> dict[str, Any]:
        """The options of a run of the command line, as they stand in the file."""
        if not self.config_file.is_file() and self.problem_file.is_file():
            raise InputError(
                f"the run {self.path} was trained by own code: open it with pdqat.load({str(self.path)!r}, model)"
            )
        return read_toml(self._read(self.config_file), self.config_file)

    def write_options(self, options: Mapping[str, Any]) -> None:
        """The first thing that a run of the command line writes."""
        self.seal.write(self.config_file, tomli_w.dumps(options).encode())

    def commands(self) -> list[str]:
        """As they were typed: the one that started the run, and those that resumed it."""
        if not self.commands_file.is_file():
            return []
        return self.commands_file.read_text(encoding="utf-8", errors="replace").splitlines()

    def note_command(self, command: str) -> None:
        """Before a training starts or goes on."""
        write_atomically(self.commands_file, "".join(f"{line}\n" for line in (*self.commands(), command)).encode())

    def problem(self) -> dict[str, Any]:
        """The description of the problem, of a run of own code."""
        description: dict[str, Any] = read_json(self._read(self.problem_file), ProblemForm, self.problem_file)
        return description

    def write_problem(self, description: Mapping[str, Any]) -> None:
        """The first thing that a run of own code writes, beside the example."""
        self._write_json(self.problem_file, description)

    def metrics(self) -> list[dict[str, Any]]:
        """One entry an epoch."""
        if not self.metrics_file.exists():
            return []
        lines = self._read(self.metrics_file).splitlines()
        entries = [read_entry(line, self.metrics_file) for line in lines]
        if [entry["epoch"] for entry in entries] != [*range(1, len(entries) + 1)]:
            raise InputError(f"{self.metrics_file} is damaged: its lines are not those of the epochs from 1 on")
        return entries

    def write_metrics(self, entries: list[dict[str, Any]]) -> None:
        """All epochs' entries, as one file."""
        lines = "".join(json.dumps(entry, allow_nan=False) + "\n" for entry in entries)
        self.seal.write(self.metrics_file, lines.encode())

    def summary(self) -> dict[str, Any]:
        """The summary of a finished run."""
        if not self.summary_file.is_file():
            own = self.problem_file.exists() and not self.config_file.exists()
            how = f"pdqat.fit(..., out={str(self.path)!r}, resume=True)" if own else f"pdqat train --resume {self.path}"
            raise InputError(f"the run {self.path} is not finished; continue it with: {how}")
        return read_summary(self._read(self.summary_file), self.summary_file)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """The last thing a run writes."""
        self._write_json(self.summary_file, summary)

    def measured(self) -> dict[str, Any]:
        """What a finished cell was measured to be."""
        measured: dict[str, Any] = read_json(self._read(self.measured_file), MeasuredForm, self.measured_file)
        return measured

    def write_measured(self, measured: Mapping[str, Any]) -> None:
        """The last thing a cell's training writes."""
        self._write_json(self.measured_file, measured)

    def offer(self) -> dict[str, Any] | None:
        """What was measured for plans, if anything."""
        if not self.offer_file.is_file():
            return None
        offer: dict[str, Any] = read_json(self._read(self.offer_file), OfferForm, self.offer_file)
        return offer

    def write_offer(self, offer: Mapping[str, Any]) -> None:
        """In place of what was measured before."""
        self._write_json(self.offer_file, offer)

    def _read(self, file: Path) -> bytes:
        try:
            return self.seal.read(file)
        except OSError as error:
            raise InputError(f"can't read {file}: {error.strerror or error}") from error

    def _write_json(self, file: Path, content: Mapping[str, Any]) -> None:
        self.seal.write(file, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def is_run(path: Path) -> bool:
    """Whether a folder is one of a run, of the command line or of own code."""
    run = Run(path)
    return run.config_file.is_file() or run.problem_file.is_file()


def check_new(path: Path) -> None:
    """Refuse a name for a run folder that is taken."""
    if not os.path.lexists(path):
        return
    continuing = f", or continue that run with --resume {path}" if is_run(path) else ""
    raise InputError(f"{path} exists; give another --out{continuing}")


def check_no_file_of_a_run(path: Path) -> None:
    """Refuse to write over a file that a run needs."""
    target = Path(os.path.realpath(path))  # which lets links in a circle be, for the writing to refuse
    run = Run(target.parent)
    written = (run.example, run.last, run.best, run.seal.file, run.commands_file)
    needed = (*OWN_FILES, *(file.name for file in written), "exports.json", ".lock")
    if is_run(run.path) and target.name in needed:
        raise InputError(f"{path} is a file of a run, which needs it as it is; give another --out")
