"""Subject: what a report is about. A run folder is one way to name it (`of_run`), a problem of one's own another."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from pdqat.batches import Batches, first_rows, limited, on_device, samples_in
from pdqat.errors import InputError
from pdqat.evidence import Entry
from pdqat.metric import MetricLike
from pdqat.precision import BitPlan
from pdqat.task import Problem, trains_low

SAMPLES = 1000
"""Of validation and of training data no more are looked at."""

Pair = tuple[Any, Any]
"""Inputs and target."""


@dataclass(frozen=True)
class Sampled:
    """The first samples of a loader."""

    batches: Sequence[Pair] = ()
    is_all: bool = True
    """Whether the loader has no more."""
    of_all: int | None = None
    """How many the loader has, if it says so."""

    @classmethod
    def of(cls, batches: Batches, count: int = SAMPLES) -> "Sampled":
        """Up to so many samples."""
        taken = list(limited(batches, count + 1))
        samples = sum(samples_in(inputs) for inputs, _ in taken)
        if samples <= count:
            return cls(taken)
        drawn = batches.sampler if isinstance(batches, DataLoader) else None  # of the data set, maybe a part
        return cls(list(limited(taken, count)), False, len(drawn) if isinstance(drawn, Sized) else None)

    @property
    def size(self) -> str:
        """How many samples the loader has, as far as that is known without going through it."""
        if self.is_all or self.of_all is not None:
            return f"{len(self) if self.is_all else self.of_all:,}"
        return f"more than {len(self):,}"

    def __len__(self) -> int:
        return sum(samples_in(inputs) for inputs, _ in self.batches)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.batches)

    def first(self, count: int) -> "Sampled":
        """Fewer of them."""
        return Sampled.of(self.batches, count)


@dataclass(frozen=True)
class Provenance:
    """How the numbers can be had again."""

    commands: list[str] = field(default_factory=list)
    """As they were typed."""
    configuration: str = ""
    checksum: str = ""
    """SHA-256 of the data."""
    checksum_of: str = ""
    """What the checksum is of."""


@dataclass(frozen=True)
class Subject:
    """A trained problem, and what is known of its training."""

    name: str
    summary: Mapping[str, Any]
    """As summary.json has it."""
    epochs: Sequence[Entry] = ()
    """As metrics.jsonl has them."""
    known_problem: Problem | None = None
    no_problem_because: str = ""
    validation: Sampled = field(default_factory=Sampled)
    training: Sampled = field(default_factory=Sampled)
    metric: MetricLike | None = None
    """By which views are judged, as `evaluate` takes it."""
    classes: Sequence[str] = ()
    to_picture: Callable[[Tensor], Tensor] | None = None
    """From a sample's input to bytes [channels, height, width]."""
    about: Mapping[str, str] = field(default_factory=dict)
    """What was trained and on what, by label."""
    exports: Mapping[str, Any] = field(default_factory=dict)
    """As exports.json has them, by file."""
    frontier: Sequence[Mapping[str, Any]] | None = None
    """As frontier.json has it."""
    provenance: Provenance = field(default_factory=Provenance)
    thorough: bool = True
    """Whether what takes longer than a pass over the samples is computed too."""
    is_own: bool = False
    """Whether `pdqat.report` was called, whose arguments bring what is missing; else commands do."""

    @property
    def problem(self) -> Problem:
        """Raises InputError, with the reason, if only the files of a run are known."""
        if self.known_problem is None:
            raise InputError(self.no_problem_because)
        return self.known_problem

    @property
    def plans(self) -> dict[str, BitPlan]:
        """The low-precision views that were trained; raises InputError if there is none."""
        if not trains_low(self.problem):
            raise InputError("full precision alone was trained")
        return self.problem.net.plans

    def held_out(self, count: int = SAMPLES) -> list[Pair]:
        """The first validation samples, where the network is."""
        return self._on_device(self.validation.first(count))

    def seen(self, count: int = SAMPLES) -> list[Pair]:
        """The first training samples, where the network is."""
        if not len(self.training):
            raise InputError("no training samples were given: `training=` takes them")
        return self._on_device(self.training.first(count))

    def _on_device(self, batches: Sampled) -> list[Pair]:
        device = next(self.problem.net.parameters()).device
        return [(on_device(inputs, device), on_device(target, device)) for inputs, target in batches]

    @torch.no_grad()
    def example(self, count: int) -> Any:
        """A few validation inputs, where the network is."""
        inputs, _ = self.held_out(count)[0]
        return first_rows(inputs, count)
