"""Run: the folder of a training run, from which every later command starts. Its format is in docs/run-folder.md.

It knows what is on disk and builds no network: what a configuration means is the business of `pdqat.config`, what a
description of an own model's problem means that of `pdqat.description`.
"""

import json
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import tomli_w

if sys.platform != "win32":
    import fcntl

from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.runs.entries import has_evidence

UNREADABLE = (ValueError, RecursionError)
"""What damaged JSON makes its reader raise."""


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
        self.metrics_file = path / "metrics.jsonl"
        self.summary_file = path / "summary.json"
        self.last = path / "last.pt"
        self.best = path / "best.pt"

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new, empty run folder; nothing that exists is touched."""
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise InputError(f"{path} exists; give another --out, or continue that run with --resume {path}") from None
        except OSError as error:
            raise InputError(f"can't make the run folder {path}: {error.strerror or error}") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing run folder, of the command line or of own code."""
        run = cls(path)
        if not run.config_file.is_file() and not run.problem_file.is_file():
            raise InputError(f"{path} is not a run folder: it has no config.toml and no problem.json")
        return run

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

    def options(self) -> dict[str, Any]:
        """The options of a run of the command line, as they stand in the file."""
        if not self.config_file.is_file() and self.problem_file.is_file():
            raise InputError(
                f"the run {self.path} was trained by own code: open it with pdqat.load({str(self.path)!r}, model)"
            )
        return read_toml(self.config_file)

    def write_options(self, options: Mapping[str, Any]) -> None:
        """The first thing that a run of the command line writes."""
        write_atomically(self.config_file, tomli_w.dumps(options).encode())

    def problem(self) -> dict[str, Any]:
        """The description of the problem, of a run of own code."""
        try:
            content = json.loads(self.problem_file.read_text(encoding="utf-8"))
        except (OSError, *UNREADABLE) as error:
            raise InputError(f"can't read the problem's description {self.problem_file}: {error}") from error
        if not isinstance(content, dict):
            raise InputError(f"{self.problem_file} is damaged: it holds no description of a problem")
        return content

    def write_problem(self, description: Mapping[str, Any]) -> None:
        """The first thing that a run of own code writes, beside the example."""
        write_atomically(self.problem_file, (json.dumps(description, indent=2, allow_nan=False) + "\n").encode())

    def metrics(self) -> list[dict[str, Any]]:
        """One entry an epoch."""
        if not self.metrics_file.exists():
            return []
        try:
            return [json.loads(line) for line in self.metrics_file.read_text(encoding="utf-8").splitlines()]
        except UNREADABLE as error:
            raise InputError(f"{self.metrics_file} is damaged: {error}") from error

    def write_metrics(self, entries: list[dict[str, Any]]) -> None:
        """All epochs' entries, as one file."""
        lines = "".join(json.dumps(entry, allow_nan=False) + "\n" for entry in entries)
        write_atomically(self.metrics_file, lines.encode())

    def summary(self) -> dict[str, Any]:
        """The summary of a finished run."""
        if not self.summary_file.is_file():
            own = self.problem_file.exists() and not self.config_file.exists()
            how = f"pdqat.fit(..., out={str(self.path)!r}, resume=True)" if own else f"pdqat train --resume {self.path}"
            raise InputError(f"the run {self.path} is not finished; continue it with: {how}")
        try:
            content = json.loads(self.summary_file.read_text(encoding="utf-8"))
        except UNREADABLE as error:
            raise InputError(f"{self.summary_file} is damaged: {error}") from error
        if not has_evidence(content) or not isinstance(content.get("plans"), dict):
            raise InputError(f"{self.summary_file} is damaged: it holds no summary")
        if not isinstance(content.get(content.get("metric", "accuracy")), dict):
            raise InputError(f"{self.summary_file} is damaged: it holds no scores")
        summary: dict[str, Any] = content
        return summary

    def write_summary(self, summary: dict[str, Any]) -> None:
        """The last thing a run writes."""
        write_atomically(self.summary_file, (json.dumps(summary, indent=2, allow_nan=False) + "\n").encode())


def read_toml(path: Path) -> dict[str, Any]:
    """The keys of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"can't read the configuration {path}: {error}") from error
