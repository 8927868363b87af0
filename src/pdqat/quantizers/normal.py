"""Weights on the even grid that suits a normal distribution best, with a scale for every output channel.

    q(w) = a (2i - n) / n,   i = round(n (1/2 + clip(w / a, -1, 1) / 2)),   n = 2^k - 1,   a = c_k mean|w|

DoReFa's grid reaches to the largest weight. Trained weights gather around zero, so at 2 bits nine in ten of them end on
its two inner values, and the second bit is all but unused. Here the range a is the one of least squared error for
normal weights (Max 1960), which puts every value to use; at 1 bit q(w) = mean|w| sign(w). A mean needs no search.
"""

import torch
from torch import Tensor

from pdqat.precision import MAX_BITS
from pdqat.quantizers.base import Grid, Quantizer

MAX_STEPS = (1.5958, 0.9957, 0.5860, 0.3352, 0.1881, 0.1041, 0.0569, 0.0308)
"""By bits from 1 on, the step of least squared error in standard deviations of a normal distribution (Max 1960)."""
SIGNED_BYTE = 127
MEAN_SIZE = 0.7978845608
"""The mean absolute value of a normal distribution, sqrt(2 / pi), in standard deviations."""


class NormalWeight(Quantizer):
    """Symmetric weights in a range of c_k mean|w| per output channel.

    The gradient also goes through the mean, so that a channel's scale is learned with its weights.

    >>> NormalWeight().codes(torch.tensor([[-3.0, -0.2, 0.2, 3.0]]), 2).integers.tolist()
    [[-3, -1, 1, 3]]
    """

    def __init__(self, largest_byte: int = SIGNED_BYTE, one_scale_of_bytes: bool = False) -> None:
        super().__init__()
        self.largest_byte = largest_byte
        """8 bits are the whole numbers from minus to plus this: the odd ones to 255 don't fit into a byte."""
        self.one_scale_of_bytes = one_scale_of_bytes
        """Whether all channels share a scale at 8 bits, so that the scores of a last layer can be whole numbers."""

    def full(self, tensor: Tensor) -> Tensor:
        """The weights as they are."""
        return tensor

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        """Odd whole numbers from -n to n; at 8 bits all from minus to plus the largest byte."""
        largest = self._range(tensor.detach(), bits)
        integers, limit = self._nearest(tensor / largest, bits)
        scale = largest / limit
        return Grid(integers, scale, torch.zeros_like(scale))

    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        """Rounding is passed over, the range is not; clipping is felt from one step beyond the range on.

        A weight just outside would otherwise stand still, and at 1 bit two in five are outside.
        """
        largest = self._range(tensor, bits)
        ratio = tensor / largest
        integers, limit = self._nearest(ratio.detach(), bits)
        beyond = 1 + 2 / (2**bits - 1)
        clipped = ratio.clamp(-beyond, beyond)
        return (clipped + (integers / limit - clipped).detach()) * largest

    def _range(self, tensor: Tensor, bits: int) -> Tensor:
        shares_scale = self.one_scale_of_bytes and bits == MAX_BITS
        size = tensor.abs().mean(list(range(0 if shares_scale else 1, tensor.dim())), keepdim=True)
        size = size.clamp_min(torch.finfo(tensor.dtype).tiny * 2**MAX_BITS)  # a channel of zeros stays finite
        steps: int = 2**bits - 1
        return size * (MAX_STEPS[bits - 1] * steps / (2 * MEAN_SIZE))

    def _nearest(self, ratio: Tensor, bits: int) -> tuple[Tensor, int]:
        """The whole numbers of w / a, and the one that stands for a."""
        if bits == MAX_BITS:
            return torch.round(self.largest_byte * ratio.clamp(-1, 1)), self.largest_byte
        levels = 2**bits - 1
        return 2 * torch.round((0.5 + ratio.clamp(-1, 1) / 2) * levels) - levels, levels
