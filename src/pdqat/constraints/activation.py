"""Layers, channels and blocks agree with themselves in full precision on the same low-precision input."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from pdqat.constraints.base import (
    Bound,
    Constraint,
    Sides,
    Tolerance,
    check_price,
    check_tolerance,
    choice,
    default_tolerance,
)
from pdqat.errors import InputError
from pdqat.layers import Distance, Network
from pdqat.layers.recorder import Request
from pdqat.precision import BitPlan
from pdqat.rules import check_all_match, resolve


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
        check_tolerance(self.tolerance)
        check_price(self.price)

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
    def distances(self, bounds: Sequence[Bound], sides: Sides) -> list[Tensor]:
        """As recorded during the forward; one number for all channels unless each has its own multiplier."""
        by_channel = [sides.recorder.distance(Distance(self.distance), bound.where) for bound in bounds]
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
        if not self.blocks or isinstance(self.blocks, str) or not isinstance(self.blocks, Sequence):
            raise InputError(
                "a block constraint needs the names of the blocks in a list, for example blocks=['stages.0.0'], not "
                f"{self.blocks!r}"
            )

    def places(self, net: Network, plan: BitPlan) -> list[Place]:
        """The named blocks."""
        for block in self.blocks:
            net.watch_block(block)
        return [Place(block, plan.lowest_bits_in(block)) for block in self.blocks]
