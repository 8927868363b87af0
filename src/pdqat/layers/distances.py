"""Distances between a layer's two sides, one number per channel.

squared, absolute   mean of (a - b)^2 or |a - b| over samples and positions
relative            the squared distance over the full-precision side's variance: what batch norm would make of it, and
                    the inverse of the signal-to-noise ratio
"""

from enum import StrEnum

import torch
from torch import Tensor

from pdqat.layers.moments import shared_moments, shifted_moments

VARIANCE_EPSILON = 1e-5  # as in batch norm


class Distance(StrEnum):
    """How two activations are compared, and where."""

    SQUARED = "squared"
    """Squared error of the activation that the next layer reads, rounded as it rounds it (the paper)."""
    ABSOLUTE = "absolute"
    """Absolute error of the activation that the next layer reads, rounded as it rounds it."""
    RELATIVE = "relative"
    """Squared error of the layer's own output, over the full-precision side's variance per channel."""

    @property
    def at_reader(self) -> bool:
        """Whether the sides are compared where the next layer reads, rather than at the layer's own output."""
        return self is not Distance.RELATIVE

    def per_channel(self, full: Tensor, low: Tensor, channel_dim: int, shared: bool = False) -> Tensor:
        """The distance of each channel, in float32 or better.

        Of a batch that processes share it is the mean over this process's samples, but the variance is that of all.
        """
        full, low = precise(full), precise(low)
        others = [dim for dim in range(full.dim()) if dim != channel_dim % full.dim()]
        if self is Distance.ABSOLUTE:
            return (full - low).abs().mean(others)
        error = (full - low).square().mean(others)
        if self is Distance.SQUARED:
            return error
        if shared:
            return error / (shared_moments(full, others)[2] + VARIANCE_EPSILON)
        alone = full.numel() == full.shape[channel_dim]  # one value a channel has no variance: take its size
        power = full.square().mean(others) if alone else _variance(full, others)
        return error / (power + VARIANCE_EPSILON)


def _variance(tensor: Tensor, over: list[int]) -> Tensor:
    if torch.compiler.is_compiling():
        first = tensor.detach()[tuple(slice(0, 1) if dim in over else slice(None) for dim in range(tensor.dim()))]
        return shifted_moments(tensor, first, over)[2]
    return torch.var(tensor, over, correction=0)


def precise(tensor: Tensor) -> Tensor:
    """In float32 at least: distances of bfloat16 activations would be lost in rounding."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
