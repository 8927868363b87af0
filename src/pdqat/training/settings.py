"""Settings: how long, how fast and with what a problem is trained."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pdqat.allocation.choices import Bits
from pdqat.constraints import choice
from pdqat.errors import InputError
from pdqat.precision import Precision


class OptimizerName(StrEnum):
    """What takes the steps of the weights."""

    ADAM = "adam"
    MUON = "muon"


class Schedule(StrEnum):
    """How the learning rate goes: see `schedule`."""

    STEPS = "steps"
    ONE_CYCLE = "one-cycle"


@dataclass(frozen=True)
class Settings:
    """What a training depends on beside the problem and its batches; see `fit` for what each is."""

    epochs: int
    optimizer: OptimizerName | str = OptimizerName.ADAM
    lr: float = 1e-3
    schedule: Schedule | str = Schedule.STEPS
    milestones: Sequence[float] = (0.5, 0.75, 0.9)
    decay: float = 0.1
    patience: int = 0
    dual_every: int = 0
    warm_up: float = 0.0
    progressive: Sequence[Bits] = ()
    flip_rate: float | None = None
    norm_batches: int = 0
    accumulate: int = 1
    clip_norm: float | None = None
    seed: int = 0
    amp: bool = False
    compile: bool = False
    compile_fallback: bool = False
    sync_norms: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimizer", choice(OptimizerName, self.optimizer, "optimizer"))
        object.__setattr__(self, "schedule", choice(Schedule, self.schedule, "schedule"))
        if isinstance(self.progressive, str) or not isinstance(self.progressive, Sequence):
            raise InputError(f"progressive is a list of precisions, such as [8, 4], not {self.progressive!r}")
        object.__setattr__(self, "progressive", tuple(str(Precision.parse(bits)) for bits in self.progressive))
        for name, least in (
            ("epochs", 1),
            ("accumulate", 1),
            ("patience", 0),
            ("dual_every", 0),
            ("norm_batches", 0),
            ("seed", 0),
        ):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or given < least:
                raise InputError(f"{name} must be a whole number from {least} upwards, not {given!r}")
        for name in ("lr", "decay", "clip_norm", "flip_rate"):
            given = getattr(self, name)
            if given is None and name in ("clip_norm", "flip_rate"):
                continue
            is_number = isinstance(given, int | float) and not isinstance(given, bool)
            if not is_number or not (math.isfinite(given) and given > 0):
                raise InputError(f"{name} must be a number above 0, not {given!r}")
        if self.flip_rate is not None and self.flip_rate > 1:
            raise InputError(f"flip_rate is a part of the weights, at most 1, not {self.flip_rate!r}")
        if isinstance(self.warm_up, bool) or not isinstance(self.warm_up, int | float) or not 0 <= self.warm_up < 1:
            raise InputError(f"warm_up is a part of the epochs, from 0 to below 1, not {self.warm_up!r}")
        if not all(0 < part < 1 for part in self.milestones):
            raise InputError(f"milestones are parts of the epochs, above 0 and below 1, not {list(self.milestones)}")

    @property
    def warm_epochs(self) -> int:
        """The epochs in full precision before the problem itself is trained, of which one at least is left."""
        return min(round(self.warm_up * self.epochs), self.epochs - 1)

    def epoch_seed(self, epoch: int) -> int:
        """Of an epoch of this training."""
        return epoch_seed(self.seed, epoch)


def epoch_seed(seed: int, epoch: int) -> int:
    """Different for every epoch of every seed."""
    return seed * 1_000_003 + epoch
