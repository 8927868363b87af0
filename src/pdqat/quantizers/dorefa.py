"""DoReFa, the quantisers of the paper (section Experiments).

    q_w(w) = 2 r(1/2 + tanh(w) / (2 max|tanh(w)|)) - 1        q_a(a) = r(clip(a, 0, 1))
    r(z)   = round(z (2^k - 1)) / (2^k - 1)

The published experiments also multiply both precisions' weights by E = mean|w|, taken as a constant, which keeps the
size of a layer's output where it was; `scaled=False` is the bare formula.
"""

import torch
from torch import Tensor

from pdqat.precision import MAX_BITS
from pdqat.quantizers.base import Grid, Quantizer


class DoReFaWeight(Quantizer):
    """Weights on 2^k evenly spaced, symmetric values: (E / n) times an odd whole number, n = 2^k - 1.

    >>> DoReFaWeight(scaled=False).codes(torch.tensor([-2.0, 0.1, 2.0]), 1).integers.tolist()
    [-1, 1, 1]
    """

    def __init__(self, scaled: bool = True, signed_byte: bool = False) -> None:
        super().__init__()
        self.scaled = scaled
        self.signed_byte = signed_byte
        """Whether 8 bits are the whole numbers from -127 to 127: the odd ones to 255 don't fit into a byte."""

    def full(self, tensor: Tensor) -> Tensor:
        """E tanh(w) / max|tanh(w)|."""
        squashed = torch.tanh(tensor)
        return self._scale(tensor) * (squashed / _largest(squashed))

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        """Whole numbers 2i - n with i = round(n (1/2 + tanh(w) / (2 max|tanh(w)|))), so the offset is zero."""
        squashed = torch.tanh(tensor)
        if self.signed_byte and bits == MAX_BITS:
            scale = self._scale(tensor) / 127
            return Grid(torch.round(127 * (squashed / _largest(squashed))), scale, torch.zeros_like(scale))
        levels = 2**bits - 1
        index = torch.round((0.5 + squashed / (2 * _largest(squashed))) * levels)
        scale = self._scale(tensor) / levels
        return Grid(2 * index - levels, scale, torch.zeros_like(scale))

    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        """Rounding is passed over: the gradient is that of the full-precision weights."""
        return self.full(tensor)

    def _scale(self, tensor: Tensor) -> Tensor:
        return tensor.detach().abs().mean() if self.scaled else tensor.new_ones(())


class DoReFaActivation(Quantizer):
    """Activations clipped to [0, 1], on i / (2^k - 1)."""

    def full(self, tensor: Tensor) -> Tensor:
        """clip(a, 0, 1)."""
        return tensor.clamp(0, 1)

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        """Whole numbers from 0 to 2^k - 1."""
        levels = 2**bits - 1
        scale = torch.full((), 1 / levels, dtype=tensor.dtype, device=tensor.device)
        return Grid(torch.round(tensor.clamp(0, 1) * levels), scale, torch.zeros_like(scale))

    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        """Rounding is passed over, clipping is not."""
        return self.full(tensor)


def _largest(squashed: Tensor) -> Tensor:
    """max|tanh(w)|, kept off zero so that an all-zero weight stays zero instead of becoming NaN."""
    return squashed.abs().max().clamp_min(torch.finfo(squashed.dtype).tiny)
