"""The operations of a deployed network on sums: whole numbers of one step, added to each other or over an image."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pdqat.deployment.integer.operations import per_channel, requantized, rounded


class SumsToCodes(nn.Module):
    """The norm and the quantiser behind a sum: round(scale x (sum + above) + shift) per channel, in float32.

    `above` are the zero points that the summands are stored with.
    """

    scale: Tensor
    shift: Tensor
    exact: Tensor
    most_off: Tensor
    """Both per channel, as in RequantizedProduct."""

    def __init__(
        self,
        scale: Tensor,
        shift: Tensor,
        exact: Tensor,
        most_off: Tensor,
        above: int,
        low: int,
        high: int,
        is_summand: bool,
        channel_dim: int = 1,
    ) -> None:
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)
        self.register_buffer("exact", exact)
        self.register_buffer("most_off", most_off)
        self.above, self.low, self.high = above, low, high
        self.is_summand = is_summand
        self.channel_dim = channel_dim

    def forward(self, sums: Tensor) -> Tensor:
        """The codes that the next layer reads."""
        scale, shift = (per_channel(vector, sums, self.channel_dim) for vector in (self.scale, self.shift))
        return rounded((sums + self.above).float() * scale + shift, self.low, self.high)


class RequantizedSum(nn.Module):
    """The same in integers: round(multiplier x (factor x sum + offset)) per channel, the last product in float32.

    A file adds the summands side by side, as one convolution of them that rounds what it makes.
    """

    factor: Tensor
    """Per channel, a signed byte: what every summand is multiplied with."""
    multiplier: Tensor
    offset: Tensor
    exact: Tensor
    most_off: Tensor
    """These per channel, as in RequantizedProduct."""
    channel_dim = 1

    def __init__(
        self,
        factor: Tensor,
        multiplier: Tensor,
        offset: Tensor,
        exact: Tensor,
        most_off: Tensor,
        above: int,
        low: int,
        high: int,
        is_summand: bool,
    ) -> None:
        super().__init__()
        self.register_buffer("factor", factor.to(torch.int8))
        self.register_buffer("multiplier", multiplier)
        self.register_buffer("offset", offset)
        self.register_buffer("exact", exact)
        self.register_buffer("most_off", most_off)
        self.above, self.low, self.high = above, low, high
        self.is_summand = is_summand

    @property
    def held(self) -> Tensor:
        """Per channel, the size of what is added to the products: the offset, and the zero points of the summands."""
        return self.offset.double().abs() + self.above * self.factor.double().abs()

    def forward(self, sums: Tensor) -> Tensor:
        """The codes that the next layer reads."""
        return self.requantize(self.multiplied(sums))

    def multiplied(self, sums: Tensor) -> Tensor:
        """Whole numbers in float64."""
        return sums.double() * per_channel(self.factor, sums)

    def requantize(self, total: Tensor) -> Tensor:
        """The codes of multiplied sums."""
        return requantized(self, total)


class PooledSums(nn.Module):
    """Whole numbers added over some dimensions: a mean without its division."""

    def __init__(self, dims: Sequence[int], keepdim: bool, count: int) -> None:
        super().__init__()
        self.dims, self.keepdim, self.count = tuple(dims), keepdim, count

    def forward(self, sums: Tensor) -> Tensor:
        """Whole numbers of the same step, divided by the `count` of those that are added."""
        return sums.sum(self.dims, self.keepdim, dtype=sums.dtype)
