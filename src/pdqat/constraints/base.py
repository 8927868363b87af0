"""What all constraints share: the bounds that they resolve to, their tolerances and prices.

A tolerance with a price tunes itself (resilient constrained learning): it is a variable t of the problem that costs

    h(t) = price x t^2 / (2 x tolerance)

and is where its multiplier equals the marginal cost, lambda = h'(t) = price x t / tolerance. So it is loose where its
multiplier is high, tight where that is low, and the given tolerance exactly where the multiplier is the price.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.layers.recorder import Recorder, Request
from pdqat.objective import Loss
from pdqat.precision import BitPlan

E = TypeVar("E", bound=StrEnum)

Tolerance = float | Mapping[str, float] | None
"""One number; numbers by layer name or glob pattern ("*" for the rest); or None, the paper's 1 / (2^bits - 1).

For the relative distance, and the divergence and cosine of outputs, which go by the squares of errors, None is the
square of that: for the relative distance the noise-to-signal ratio of a uniformly distributed value rounded to `bits`
bits.
"""


@dataclass(frozen=True)
class Bound:
    """Mean distance <= tolerance, at one place of one view; with `channels` > 1, for each channel on its own."""

    kind: str
    where: str
    view: str
    tolerance: float
    start: float | None = 0.0
    """The multiplier to start from. None is 1, as for the output in Algorithm 1, where low precision learns from the
    constraint alone, and 0 where it learns from the task itself."""
    channels: int = 1
    price: float | None = None
    """What relaxing the tolerance costs; None holds it fixed."""

    def __post_init__(self) -> None:
        check_price(self.price)
        if self.price is not None and self.tolerance == 0:
            raise InputError(f"the tolerance of {self.name} is 0 and can't tune itself; give one above 0, or no price")

    @property
    def first_multiplier(self) -> float:
        """What its multiplier starts from."""
        return 1.0 if self.start is None else self.start

    @property
    def relaxation(self) -> float:
        """The tolerance that each unit of the multiplier brings with it; 0 if it is fixed."""
        return 0.0 if self.price is None else self.tolerance / self.price

    @property
    def name(self) -> str:
        """Unique within a problem: view, kind and place."""
        return "/".join(part for part in (self.view, self.kind, self.where) if part)


@dataclass(frozen=True)
class Sides:
    """What constraints compare on one batch."""

    full: Tensor
    """The output that low precision is held to: of the full-precision view, or of a teacher."""
    low: Tensor
    """The output of the view under the plan, for the same samples."""
    target: Any
    """Of these samples."""
    loss: Loss
    recorder: Recorder
    """What was recorded inside the view."""


class Constraint(ABC):
    """What a user asks of every plan of a network. Subclass it for a constraint of your own."""

    kind: ClassVar[str]
    """What its bounds are called by."""

    @abstractmethod
    def resolve(self, net: Network, plan: BitPlan) -> list[Bound]:
        """One bound for every place under this plan."""

    @abstractmethod
    def request(self, net: Network, plan: BitPlan) -> Request | None:
        """What a recorder has to watch during the forward under this plan."""

    @abstractmethod
    def distances(self, bounds: Sequence[Bound], sides: Sides) -> list[Tensor]:
        """Mean distance of each bound on this batch, as vectors with an entry per channel."""

    def under_other_bits(self, bounds: Sequence[Bound]) -> "Constraint":
        """The constraint for the same model under a plan with other bits; `bounds` are those it resolved to so far."""
        return self


def default_tolerance(bits: int | None) -> float:
    """The smallest positive number that `bits` bits represent in [0, 1]: 1 / (2^bits - 1)."""
    return 0.0 if bits is None else 1 / (2**bits - 1)


def choice(kind: type[E], given: str, what: str) -> E:
    """The member of an enumeration, or a clear refusal."""
    try:
        return kind(given)
    except ValueError:
        raise InputError(f"unknown {what} {given!r}; choose one of {', '.join(kind)}") from None


def check_tolerance(given: Tolerance) -> None:
    """Raise InputError if it is none."""
    numbers = given.items() if isinstance(given, Mapping) else [("", given)]
    for pattern, tolerance in numbers:
        where = f" for {pattern!r}" if pattern else ""
        if tolerance is None and not pattern:
            continue
        if isinstance(tolerance, bool) or not isinstance(tolerance, float | int):
            raise InputError(f"a tolerance{where} must be a number, not {tolerance!r}")
        if not (math.isfinite(tolerance) and tolerance >= 0):
            raise InputError(f"a tolerance{where} must be zero or more and finite, not {tolerance}")


def check_price(given: float | None) -> None:
    """Raise InputError if it is none."""
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, float | int) or not (math.isfinite(given) and given > 0):
        raise InputError(f"the price of a tolerance must be a number above zero, not {given!r}")
