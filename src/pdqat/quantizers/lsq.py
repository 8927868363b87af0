"""LSQ, learned step size quantisation (Esser et al. 2020), for the straight-through baseline.

v = s x round(clip(t / s, -n, p))        the step s is a parameter, its gradient scaled by 1 / sqrt(size x p)
"""

import torch
from torch import Tensor, nn

from pdqat.distributed import least
from pdqat.quantizers.base import Grid, Quantizer


class LSQ(Quantizer):
    """A step size learned by straight-through gradient, started at 2 mean|t| / sqrt(p).

    Weights are signed from the start; activations become signed with the first negative value. One signed bit holds
    -1 and +1, more hold -2^(k-1) to 2^(k-1) - 1; unsigned ones 0 to 2^k - 1.
    """

    signed: Tensor

    def __init__(self, signed: bool) -> None:
        super().__init__()
        self.step = nn.Parameter(torch.ones(()))
        self.register_buffer("signed", torch.tensor(signed))

    def full(self, tensor: Tensor) -> Tensor:
        """The tensor as it is."""
        return tensor

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        """Nearest whole number of steps."""
        step = self._step(tensor)
        return Grid(self._round(tensor / step, bits), step, torch.zeros_like(step))

    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        """A function with LSQ's gradients for both the tensor and the step."""
        low, high = self._range(bits)
        damping = (tensor.numel() * high.abs().clamp_min(1)).rsqrt()
        step = self._step(tensor)
        step = step * damping + (step - step * damping).detach()
        ratio = tensor / step
        clipped = torch.maximum(torch.minimum(ratio, high), low)
        return (clipped + (self._round(ratio, bits) - clipped).detach()) * step

    @torch.no_grad()
    def calibrate(self, tensor: Tensor, bits: int) -> None:
        """Start the step at 2 mean|t| / sqrt(p)."""
        self.observe(tensor, bits)
        start = 2 * tensor.abs().mean() / self._range(bits)[1].abs().clamp_min(1).sqrt()
        if start > 0:
            self.step.copy_(start)

    @torch.no_grad()
    def observe(self, tensor: Tensor, bits: int, shared: bool = False) -> None:
        """Become signed with the first negative value."""
        lowest = least(tensor.min()) if shared else tensor.min()
        self.signed = self.signed | (lowest < 0)

    def _step(self, tensor: Tensor) -> Tensor:
        """The optimiser may push a step below zero; its size is what counts."""
        return self.step.abs().clamp_min(torch.finfo(self.step.dtype).eps).to(tensor.dtype)

    def _range(self, bits: int) -> tuple[Tensor, Tensor]:
        half = 2 ** (bits - 1)
        low = torch.where(self.signed, float(-half), 0.0)
        return low, torch.where(self.signed, float(max(half - 1, 1)), float(2**bits - 1))

    def _round(self, ratio: Tensor, bits: int) -> Tensor:
        low, high = self._range(bits)
        rounded = torch.maximum(torch.minimum(torch.round(ratio), high), low).to(ratio.dtype)
        if bits > 1:
            return rounded
        sign = torch.where(ratio >= 0, 1.0, -1.0).to(ratio.dtype)
        return torch.where(self.signed, sign, rounded)
