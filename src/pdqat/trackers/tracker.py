"""Tracker: what a place that keeps trainings has to be able to do; one file each beside this one."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from pdqat import telemetry
from pdqat.disk import write_atomically
from pdqat.errors import InputError

PROJECT = "pdqat"
"""Under which trackers that have projects or experiments keep trainings, unless the environment names another."""


@dataclass(frozen=True)
class Bars:
    """A histogram: counts between neighbouring edges, of which there is one more."""

    edges: Sequence[float]
    counts: Sequence[int]


@dataclass(frozen=True)
class Training:
    """What a log is of."""

    folder: Path
    """Holds the log, or a note by which a training that is resumed finds it again."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the training is to be known by."""

    @property
    def name(self) -> str:
        """The folder's."""
        return self.folder.resolve().name


class Tracker(ABC):
    """Keeps the log of one training. What it raises is the tracker's own: `Log` knows what to do then."""

    name: ClassVar[str]
    """What it is called on the command line, and the extra that installs it."""
    package: ClassVar[str]
    """What has to be there to be imported."""

    def __init__(self, training: Training) -> None:
        self.training = training

    @classmethod
    def check(cls) -> None:
        """Raise InputError if the package is missing or does not work."""
        telemetry.turn_off()
        try:
            import_module(cls.package)
        except ImportError as error:
            raise InputError(
                f"the log {cls.name!r} can't be written ({error}); install it with: pip install 'pdqat[{cls.name}]'"
            ) from error

    @abstractmethod
    def look(self) -> str:
        """How a person gets to see the log."""

    @abstractmethod
    def open(self, done: int) -> int:
        """Begin a log, or go on with that of a training of which `done` epochs are done.

        Returns how many of these stand in the log. Whatever it holds of later ones no longer counts.
        """

    @abstractmethod
    def log(self, epoch: int, numbers: Mapping[str, float], histograms: Mapping[str, Bars]) -> None:
        """All there is of an epoch; it counts as logged once this has returned."""

    @abstractmethod
    def finish(self, epochs: int, numbers: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """What a training of so many epochs has led to."""

    @abstractmethod
    def page(self, path: Path) -> None:
        """Keep an HTML file."""

    @abstractmethod
    def close(self, failed: bool) -> None:
        """The training ended, or was stopped."""


class Note:
    """What a tracker remembers beside the training, in a file of its own."""

    def __init__(self, training: Training, name: str) -> None:
        self._file = training.folder / f"{name}.json"

    def read(self) -> dict[str, Any]:
        """What was written last; nothing at first."""
        try:
            content = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise InputError(f"can't read {self._file}, by which a log is continued: {error}") from error
        if not isinstance(content, dict):
            raise InputError(f"{self._file}, by which a log is continued, is damaged; without it a new log is begun")
        return content

    def write(self, **content: Any) -> None:
        """In place of what was there."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file, (json.dumps(content) + "\n").encode())
