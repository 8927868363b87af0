"""Clips between a layer and what reads it: ReLU, ReLU6, clamps, and any sequence of them."""

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Clip:
    """Values below `low` become `low`, those above `high` become `high`."""

    low: float = -math.inf
    high: float = math.inf

    def __call__(self, tensor: Tensor) -> Tensor:
        """The clipped values in a tensor of their own, even where nothing is clipped."""
        return tensor.clamp(self.low, self.high)

    def after(self, first: "Clip") -> "Clip":
        """What `first` and then this one do together.

        >>> Clip(0.0, 1.0).after(Clip(low=-2.0, high=0.5))
        Clip(low=0.0, high=0.5)
        """
        low, high = (min(max(limit, self.low), self.high) for limit in (first.low, first.high))
        return Clip(low, high)

    def widened(self, other: "Clip") -> "Clip":
        """What passes one of the two."""
        return Clip(min(self.low, other.low), max(self.high, other.high))
