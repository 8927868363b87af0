"""Run: the folder of a training run, from which every later command starts. Its format is in docs/run-folder.md."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

if sys.platform != "win32":
    import fcntl

from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.training.config import TrainConfig, read_toml, to_toml
from pdqat.training.presets import resolve_config


class BusyError(InputError):
    """Another process trains the run."""


EVIDENCE = ("kind", "where", "tolerance", "distance", "slack", "multiplier")
"""What summary and metrics say of every constraint."""


def layer_multipliers(entry: Mapping[str, Any]) -> dict[str, float]:
    """By layer, of one epoch's entry of the metrics; empty without layer constraints."""
    return {each["where"]: float(each["multiplier"]) for each in entry["constraints"] if each["kind"] == "layer"}


class Run:
    """Paths and contents of a run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.toml"
        self.metrics_file = path / "metrics.jsonl"
        self.summary_file = path / "summary.json"
        self.last = path / "last.pt"
        self.best = path / "best.pt"

    @classmethod
    def create(cls, path: Path, config: TrainConfig) -> Self:
        """A new run folder with the resolved configuration in it; nothing that exists is touched."""
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise InputError(f"{path} exists; give another --out, or continue that run with --resume {path}") from None
        except OSError as error:
            raise InputError(f"can't make the run folder {path}: {error.strerror or error}") from error
        run = cls(path)
        run.write_config(config)
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing run folder."""
        run = cls(path)
        if not run.config_file.is_file():
            raise InputError(f"{path} is not a run folder: it has no config.toml")
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

    def config(self) -> TrainConfig:
        """The resolved configuration."""
        return resolve_config(None, read_toml(self.config_file), {})

    def write_config(self, config: TrainConfig) -> None:
        """The first thing a run writes."""
        write_atomically(self.config_file, to_toml(config).encode())

    def metrics(self) -> list[dict[str, Any]]:
        """One entry an epoch."""
        if not self.metrics_file.exists():
            return []
        try:
            return [json.loads(line) for line in self.metrics_file.read_text(encoding="utf-8").splitlines()]
        except ValueError as error:
            raise InputError(f"{self.metrics_file} is damaged: {error}") from error

    def write_metrics(self, entries: list[dict[str, Any]]) -> None:
        """All epochs' entries, as one file."""
        lines = "".join(json.dumps(entry, allow_nan=False) + "\n" for entry in entries)
        write_atomically(self.metrics_file, lines.encode())

    def summary(self) -> dict[str, Any]:
        """The summary of a finished run."""
        if not self.summary_file.is_file():
            raise InputError(f"the run {self.path} is not finished; continue it with: pdqat train --resume {self.path}")
        try:
            content = json.loads(self.summary_file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{self.summary_file} is damaged: {error}") from error
        if not has_evidence(content) or not all(isinstance(content.get(key), dict) for key in ("accuracy", "plans")):
            raise InputError(f"{self.summary_file} is damaged: it holds no summary")
        found: dict[str, Any] = content
        return found

    def write_summary(self, summary: dict[str, Any]) -> None:
        """The last thing a run writes."""
        write_atomically(self.summary_file, (json.dumps(summary, indent=2, allow_nan=False) + "\n").encode())


def has_evidence(content: Any) -> bool:
    """Whether it holds constraints with all that is known of each; numbers, or a list of them for channels."""
    found = content.get("constraints") if isinstance(content, dict) else None
    return isinstance(found, list) and all(
        isinstance(each, dict)
        and all(isinstance(each.get(key), str if key in ("kind", "where") else int | float | list) for key in EVIDENCE)
        and (each["kind"] != "layer" or isinstance(each["multiplier"], int | float))
        for each in found
    )
