"""Signed values on multiples of a power of two: for sums, which stay exact in float32 and in integers alike."""

import torch
from torch import Tensor

from pdqat.distributed import least
from pdqat.quantizers.base import Grid, Quantizer


class PowerOfTwo(Quantizer):
    """Whole numbers from -n - 1 to n, n = 2^(k-1) - 1, times the smallest power of two that reaches a running maximum.

    >>> quantizer = PowerOfTwo()
    >>> quantizer.calibrate(torch.tensor([-100.0, 3.0]), 8)
    >>> quantizer.quantize(torch.tensor([-100.4, 2.6, 500.0]), 8).tolist()
    [-100.0, 3.0, 127.0]
    """

    FORGETTING = 1e-3
    """By which part the running maximum falls with every training tensor."""
    largest: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("largest", torch.zeros(()))

    def full(self, tensor: Tensor) -> Tensor:
        """The values as they are."""
        return tensor

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        """Nearest whole number of steps."""
        step, limit = self._step(bits).to(tensor.dtype), _limit(bits)
        return Grid(torch.round(tensor / step).clamp(-limit - 1, limit), step, torch.zeros_like(step))

    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        """Clipped to the grid's range."""
        step, limit = self._step(bits).to(tensor.dtype), _limit(bits)
        return torch.maximum(torch.minimum(tensor, step * limit), -step * (limit + 1))

    @torch.no_grad()
    def calibrate(self, tensor: Tensor, bits: int) -> None:
        """Reach the example, beside those that were shown before: several tensors may share a quantiser."""
        self.largest.copy_(torch.maximum(self.largest, tensor.abs().max()))

    @torch.no_grad()
    def observe(self, tensor: Tensor, bits: int, shared: bool = False) -> None:
        """Follow a larger maximum at once, a smaller one slowly."""
        largest = tensor.abs().max().to(self.largest.dtype)
        if shared:
            largest = -least(-largest)
        self.largest = torch.maximum(self.largest * (1 - self.FORGETTING), largest)

    def _step(self, bits: int) -> Tensor:
        smallest = torch.finfo(torch.float32).tiny * _limit(bits)
        exponent = torch.ceil(torch.log2(self.largest.clamp_min(smallest) / _limit(bits)))
        return torch.ldexp(torch.ones_like(exponent), exponent)


def _limit(bits: int) -> int:
    return max((1 << (bits - 1)) - 1, 1)
