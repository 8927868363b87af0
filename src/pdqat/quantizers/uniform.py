"""Uniform quantisers whose scale is the one of least squared error, so that it needs no gradient.

Weights are symmetric: whole numbers from -n to n with n = 2^(k-1) - 1, and at one bit -1 and +1. Activations are
unsigned (0 to 2^k - 1) until a negative one is seen, then signed like weights; their scale is a running estimate.
"""

import torch
from torch import Tensor

from pdqat.distributed import least, total
from pdqat.quantizers.base import Grid, Quantizer

COARSE = [*(1 - i / 16 for i in range(16)), *(1 / 2**i for i in range(5, 10))]
"""Fractions of the largest value; the last ones for a row in which a single value is far larger than the rest."""
FINE = [i / 128 for i in range(-7, 8)]
REFINEMENTS = 2
SEARCHED = 2**15
"""Of a row with twice as many values or more, how many the search for its scale looks at, about."""


class UniformWeight(Quantizer):
    """Symmetric weights with one scale per tensor or per output channel, found anew from the weights each time."""

    def __init__(self, per_channel: bool = False) -> None:
        super().__init__()
        self.per_channel = per_channel

    def full(self, tensor: Tensor) -> Tensor:
        """The weights as they are."""
        return tensor

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        """Nearest whole number of scales."""
        scale = self._scale(tensor, bits)
        return Grid(nearest(tensor / scale, bits, symmetric=True), scale, torch.zeros_like(scale))

    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        """Clipped to the grid's range."""
        return _clipped(tensor, self._scale(tensor, bits), bits)

    def surrogate_of(self, grid: Grid, tensor: Tensor, bits: int) -> Tensor:
        """The search for the scale is most of the work, and done."""
        return _clipped(tensor, grid.scale, bits)

    @torch.no_grad()
    def _scale(self, tensor: Tensor, bits: int) -> Tensor:
        rows = tensor.flatten(1) if self.per_channel else tensor.reshape(1, -1)
        scale = least_squares_scale(rows, bits, symmetric=True)
        return scale.view(-1, *[1] * (tensor.dim() - 1)) if self.per_channel else scale.view(())


class UniformActivation(Quantizer):
    """Activations with one running scale per tensor; signed from the first negative value on."""

    MOMENTUM = 0.05
    scale: Tensor
    signed: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("signed", torch.zeros((), dtype=torch.bool))

    def full(self, tensor: Tensor) -> Tensor:
        """The activations as they are."""
        return tensor

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        """Nearest whole number of scales."""
        scale = self.scale.to(tensor.dtype)
        ratio = tensor / scale
        integers = torch.where(self.signed, nearest(ratio, bits, symmetric=True), nearest(ratio, bits, symmetric=False))
        return Grid(integers, scale, torch.zeros_like(scale))

    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        """Clipped to the grid's range."""
        scale = self.scale.to(tensor.dtype)
        high = scale * torch.where(self.signed, _symmetric_limit(bits), 2**bits - 1)
        low = torch.where(self.signed, -high, torch.zeros_like(high))
        return torch.maximum(torch.minimum(tensor, high), low)

    @torch.no_grad()
    def calibrate(self, tensor: Tensor, bits: int) -> None:
        """Search the scale that fits the example best."""
        rows = tensor.detach().reshape(1, -1).to(self.scale.dtype)
        self.signed.copy_(rows.min() < 0)
        if rows.any():
            self.scale.copy_(least_squares_scale(rows, bits, bool(self.signed)).view(()))

    @torch.no_grad()
    def observe(self, tensor: Tensor, bits: int, shared: bool = False) -> None:
        """Move the scale towards the least-squares one for this batch, one step from where it is."""
        rows = tensor.detach().reshape(1, -1).to(self.scale.dtype)
        lowest = least(rows.min()) if shared else rows.min()
        self.signed = self.signed | (lowest < 0)
        scale = self.scale.view(1, 1)
        signed, unsigned = (_refine(rows, scale, bits, symmetric, shared) for symmetric in (True, False))
        better = torch.where(self.signed, signed, unsigned)
        self.scale = torch.lerp(self.scale, better.view(()), self.MOMENTUM)


def nearest(ratio: Tensor, bits: int, symmetric: bool) -> Tensor:
    """The nearest whole number that `bits` bits can hold."""
    if not symmetric:
        return torch.round(ratio).clamp(0, 2**bits - 1)
    if bits == 1:
        return torch.where(ratio >= 0, 1.0, -1.0).to(ratio.dtype)
    limit = _symmetric_limit(bits)
    return torch.round(ratio).clamp(-limit, limit)


def least_squares_scale(rows: Tensor, bits: int, symmetric: bool) -> Tensor:
    """Per row the scale s that minimises |row - s x nearest(row / s)|^2, as a column.

    A search over fractions of the largest value, since the error has many local minima, finer around the best of them;
    then alternating least squares: for fixed whole numbers i the best scale is <row, i> / <i, i>. The search looks at
    32,768 values or a few more of a longer row, evenly spread; least squares at all of them.
    """
    limit = _symmetric_limit(bits) if symmetric else 2**bits - 1
    largest = rows.abs().amax(1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny * limit) / limit
    best, least = largest, torch.full_like(largest, torch.inf)
    every = rows.shape[1] // SEARCHED
    seen = rows if every < 2 else rows[:, :: every | 1]  # an odd step, so that no column of a matrix is left out
    for offsets in (COARSE, FINE):
        centre = torch.zeros_like(best) if offsets is COARSE else best
        for offset in offsets:
            scale = centre + largest * offset
            values = nearest(seen / scale, bits, symmetric).mul_(scale)  # in place: memory is what takes the time
            error = values.sub_(seen).square_().sum(1, keepdim=True)
            better = (error < least) & (scale > 0)
            best, least = torch.where(better, scale, best), torch.where(better, error, least)
    for _ in range(REFINEMENTS):
        best = _refine(rows, best, bits, symmetric)
    return best


def _refine(rows: Tensor, scale: Tensor, bits: int, symmetric: bool, shared: bool = False) -> Tensor:
    integers = nearest(rows / scale, bits, symmetric)
    energy, product = integers.square().sum(1, keepdim=True), (rows * integers).sum(1, keepdim=True)
    if shared:
        energy, product = total(torch.stack([energy, product])).unbind()
    fitted = product / energy.clamp_min(1)
    return torch.where((energy > 0) & (fitted > 0), fitted, scale)


def _clipped(tensor: Tensor, scale: Tensor, bits: int) -> Tensor:
    limit = scale * _symmetric_limit(bits)
    return torch.maximum(torch.minimum(tensor, limit), -limit)


def _symmetric_limit(bits: int) -> int:
    return max((1 << (bits - 1)) - 1, 1)
