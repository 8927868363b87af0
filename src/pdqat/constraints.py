"""Constraints: where f and f^q must stay close, by which distance, and how close (problem QRL of the paper).

A constraint such as `LayerConstraint(tolerance=0.1)` is what a user states; for a network it resolves to `Bound`s, one
for every layer and plan. The slack of a bound is its mean distance minus its tolerance.

A tolerance with a price tunes itself (resilient constrained learning): it is a variable t of the problem that costs

    h(t) = price x t^2 / (2 x tolerance)

and is where its multiplier equals the marginal cost, lambda = h'(t) = price x t / tolerance. So it is loose where its
multiplier is high, tight where that is low, and the given tolerance exactly where the multiplier is the price.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, TypeVar, final

import torch.nn.functional as F
from torch import Tensor

from pdqat.errors import InputError
from pdqat.layers import Distance, Network
from pdqat.layers.distances import precise
from pdqat.layers.recorder import Recorder, Request
from pdqat.precision import BitPlan
from pdqat.rules import check_all_match, resolve

E = TypeVar("E", bound=StrEnum)

Tolerance = float | Mapping[str, float] | None
"""One number; numbers by layer name or glob pattern ("*" for the rest); or None, the paper's 1 / (2^bits - 1).

For the relative distance and the divergence of outputs, which go by the squares of errors, None is the square of that:
for the relative distance the noise-to-signal ratio of a uniformly distributed value rounded to `bits` bits.
"""


@dataclass(frozen=True)
class Bound:
    """Mean distance <= tolerance, at one place of one view; with `channels` > 1, for each channel on its own."""

    kind: str
    where: str
    view: str
    tolerance: float
    start: float = 0.0
    """The multiplier to start from."""
    channels: int = 1
    price: float | None = None
    """What relaxing the tolerance costs; None holds it fixed."""

    def __post_init__(self) -> None:
        _check_price(self.price)
        if self.price is not None and self.tolerance == 0:
            raise InputError(f"the tolerance of {self.name} is 0 and can't tune itself; give one above 0, or no price")

    @property
    def relaxation(self) -> float:
        """The tolerance that each unit of the multiplier brings with it; 0 if it is fixed."""
        return 0.0 if self.price is None else self.tolerance / self.price

    @property
    def name(self) -> str:
        """Unique within a problem: view, kind and place."""
        return "/".join(part for part in (self.view, self.kind, self.where) if part)


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
    def distances(self, bounds: Sequence[Bound], full: Tensor, low: Tensor, recorder: Recorder) -> list[Tensor]:
        """Mean distance of each bound on this batch, as vectors with an entry per channel."""

    def under_other_bits(self, bounds: Sequence[Bound]) -> "Constraint":
        """The constraint for the same model under a plan with other bits; `bounds` are those it resolved to so far."""
        return self


class OutputDistance(StrEnum):
    """How the outputs of f and f^q are compared; classes stand in dimension 1."""

    CROSS_ENTROPY = "cross-entropy"
    """-sum f log f^q of the softmax outputs (the paper). Never below the entropy of f, which it lowers too."""
    KL = "kl"
    """The divergence, which is the cross-entropy minus the entropy of f: zero where the two agree."""
    SQUARED = "squared"
    """Mean squared error, for regression."""

    def between(self, full: Tensor, low: Tensor) -> Tensor:
        """The mean distance over the batch."""
        full, low = precise(full), precise(low)
        if self is OutputDistance.SQUARED:
            return F.mse_loss(low, full)
        if full.dim() < 2 or full.shape[1] < 2:
            raise InputError(
                f"outputs of shape {tuple(full.shape)} are no scores of classes, which the distance '{self.value}' "
                "compares; use OutputConstraint('squared')"
            )
        probabilities = full.softmax(1)
        cross_entropy = F.cross_entropy(low, probabilities)
        if self is OutputDistance.CROSS_ENTROPY:
            return cross_entropy
        return cross_entropy - F.cross_entropy(full, probabilities)


@final
@dataclass(frozen=True)
class OutputConstraint(Constraint):
    """f and f^q agree at the model's output. Its multiplier starts at 1, as in Algorithm 1."""

    distance: OutputDistance | str = OutputDistance.KL
    tolerance: float | None = None
    price: float | None = None
    kind = "output"

    def __post_init__(self) -> None:
        object.__setattr__(self, "distance", choice(OutputDistance, self.distance, "output distance"))
        _check_tolerance(self.tolerance)
        _check_price(self.price)

    def resolve(self, net: Network, plan: BitPlan) -> list[Bound]:
        """One bound."""
        smallest = default_tolerance(plan.lowest_bits_in())
        usual = smallest**2 if self.distance is OutputDistance.KL else smallest
        tolerance = usual if self.tolerance is None else self.tolerance
        return [Bound(self.kind, "", plan.name, tolerance, start=1.0, price=self.price)]

    def request(self, net: Network, plan: BitPlan) -> Request | None:
        """The outputs are at hand: nothing to watch."""
        return None

    def distances(self, bounds: Sequence[Bound], full: Tensor, low: Tensor, recorder: Recorder) -> list[Tensor]:
        """Of the two outputs."""
        return [OutputDistance(self.distance).between(full, low).view(1)]

    def under_other_bits(self, bounds: Sequence[Bound]) -> "OutputConstraint":
        """With the tolerance as it is: what the model is for does not change with the bits of single layers."""
        return replace(self, tolerance=bounds[0].tolerance) if bounds else self


@dataclass(frozen=True)
class Place:
    """Where a network is compared with itself: a layer or a block, its bits and its number of multipliers."""

    name: str
    bits: int | None
    channels: int = 1


@dataclass(frozen=True)
class ActivationConstraint(Constraint):
    """Parts of the network agree with themselves in full precision on the same low-precision input."""

    distance: Distance | str = Distance.RELATIVE
    tolerance: Tolerance = None
    price: float | None = None
    per_channel: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "distance", choice(Distance, self.distance, "layer distance"))
        _check_tolerance(self.tolerance)
        _check_price(self.price)

    @abstractmethod
    def places(self, net: Network, plan: BitPlan) -> list[Place]:
        """What is compared under this plan."""

    @final
    def resolve(self, net: Network, plan: BitPlan) -> list[Bound]:
        """One bound per place."""
        places = self.places(net, plan)
        if isinstance(self.tolerance, Mapping):
            known = dict.fromkeys([*net.layers, *(place.name for place in places)])
            check_all_match(self.tolerance, known, "the tolerance for")
        return [
            Bound(self.kind, place.name, plan.name, self._tolerance(place), channels=place.channels, price=self.price)
            for place in places
        ]

    @final
    def request(self, net: Network, plan: BitPlan) -> Request | None:
        """A twin at each place."""
        return Request(frozenset(place.name for place in self.places(net, plan)), Distance(self.distance))

    @final
    def distances(self, bounds: Sequence[Bound], full: Tensor, low: Tensor, recorder: Recorder) -> list[Tensor]:
        """As recorded during the forward; one number for all channels unless each has its own multiplier."""
        by_channel = [recorder.distance(Distance(self.distance), bound.where) for bound in bounds]
        return by_channel if self.per_channel else [distance.mean().view(1) for distance in by_channel]

    def _tolerance(self, place: Place) -> float:
        given = self.tolerance if isinstance(self.tolerance, Mapping) else {"*": self.tolerance}
        tolerance = resolve(given, place.name, None)
        if tolerance is not None:
            return float(tolerance)
        smallest = default_tolerance(place.bits)
        return smallest**2 if self.distance is Distance.RELATIVE else smallest


@final
class LayerConstraint(ActivationConstraint):
    """Each layer with quantised weights agrees with itself in full precision on the same quantised input."""

    kind = "layer"

    def places(self, net: Network, plan: BitPlan) -> list[Place]:
        """The layers whose weights are quantised."""
        return [Place(name, plan[name].weight) for name in plan.low_layers if plan[name].weight is not None]


@final
class ChannelConstraint(ActivationConstraint):
    """As LayerConstraint, with a constraint and a multiplier for every output channel."""

    kind = "channel"
    per_channel = True

    def places(self, net: Network, plan: BitPlan) -> list[Place]:
        """The layers whose weights are quantised, with their channels."""
        layers = net.layers
        names = [name for name in plan.low_layers if plan[name].weight is not None]
        return [Place(name, plan[name].weight, layers[name].channels) for name in names]


@final
@dataclass(frozen=True)
class BlockConstraint(ActivationConstraint):
    """Named submodules agree with themselves in full precision on the same input, compared at their own output."""

    blocks: Sequence[str] = ()
    kind = "block"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.blocks:
            raise InputError("a block constraint needs the names of the blocks, for example blocks=['stages.0.0']")

    def places(self, net: Network, plan: BitPlan) -> list[Place]:
        """The named blocks."""
        for block in self.blocks:
            net.watch_block(block)
        return [Place(block, plan.lowest_bits_in(block)) for block in self.blocks]


CONSTRAINTS: dict[str, type[OutputConstraint] | type[ActivationConstraint]] = {
    constraint.kind: constraint
    for constraint in (OutputConstraint, LayerConstraint, ChannelConstraint, BlockConstraint)
}
"""The constraints that files know by their kind."""


def default_tolerance(bits: int | None) -> float:
    """The smallest positive number that `bits` bits represent in [0, 1]: 1 / (2^bits - 1)."""
    return 0.0 if bits is None else 1 / (2**bits - 1)


def choice(kind: type[E], given: str, what: str) -> E:
    """The member of an enumeration, or a clear refusal."""
    try:
        return kind(given)
    except ValueError:
        raise InputError(f"unknown {what} {given!r}; choose one of {', '.join(kind)}") from None


def _check_tolerance(given: Tolerance) -> None:
    numbers = given.items() if isinstance(given, Mapping) else [("", given)]
    for pattern, tolerance in numbers:
        where = f" for {pattern!r}" if pattern else ""
        if tolerance is None and not pattern:
            continue
        if isinstance(tolerance, bool) or not isinstance(tolerance, float | int):
            raise InputError(f"a tolerance{where} must be a number, not {tolerance!r}")
        if not (math.isfinite(tolerance) and tolerance >= 0):
            raise InputError(f"a tolerance{where} must be zero or more and finite, not {tolerance}")


def _check_price(given: float | None) -> None:
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, float | int) or not (math.isfinite(given) and given > 0):
        raise InputError(f"the price of a tolerance must be a number above zero, not {given!r}")
