"""Low precision does the task itself: its task loss is bounded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from torch import Tensor

from pdqat.constraints.base import Bound, Constraint, Sides, check_price, check_tolerance
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.layers.recorder import Request
from pdqat.precision import BitPlan


@final
@dataclass(frozen=True)
class LossConstraint(Constraint):
    """mean loss(f^q(x), y) <= tolerance, for every plan.

    It says nothing about full precision: beside an output constraint it asks low precision to be right, not only alike.

    Args:
        tolerance: the largest mean task loss, in the loss's own unit.
        price: what relaxing the tolerance costs; None holds it fixed.
    """

    tolerance: float
    price: float | None = None
    kind = "loss"

    def __post_init__(self) -> None:
        if self.tolerance is None or isinstance(self.tolerance, Mapping):
            raise InputError(f"the tolerance of the task loss is one number, not {self.tolerance!r}")
        check_tolerance(self.tolerance)
        check_price(self.price)

    def resolve(self, net: Network, plan: BitPlan) -> list[Bound]:
        """One bound, whose multiplier starts at 1 where there would be no gradient to begin with."""
        return [Bound(self.kind, "", plan.name, self.tolerance, start=None, price=self.price)]

    def request(self, net: Network, plan: BitPlan) -> Request | None:
        """The output is at hand: nothing to watch."""
        return None

    def distances(self, bounds: Sequence[Bound], sides: Sides) -> list[Tensor]:
        """The task loss of the low-precision output."""
        return [sides.loss(sides.low, sides.target).view(1)]
