"""DoReFa, the quantisers of the paper (section Experiments).

    q_w(w) = 2 r(1/2 + tanh(w) / (2 max|tanh(w)|)) - 1        q_a(a) = r(clip(a, 0, 1))
    r(z)   = round(z (2^k - 1)) / (2^k - 1)

The published experiments also multiply both precisions' weights by E = mean|w|, taken as a constant, which keeps the
size of a layer's output where it was; `scaled=False` is the bare formula.
"""

import torch
from torch import Tensor

from pdqat.distributed import least
from pdqat.precision import MAX_BITS
from pdqat.quantizers.base import Grid, Quantizer


class DoReFaWeight(Quantizer):
    """Weights on 2^k evenly spaced, symmetric values: (E / n) times an odd whole number, n = 2^k - 1.

    >>> DoReFaWeight(scaled=False).codes(torch.tensor([-2.0, 0.1, 2.0]), 1).integers.tolist()
    [-1, 1, 1]
    """

    def __init__(self, scaled: bool = True, largest_byte: int | None = None) -> None:
        super().__init__()
        self.scaled = scaled
        self.largest_byte = largest_byte
        """If given, 8 bits are the whole numbers from minus to plus this: the odd ones to 255 don't fit into a byte."""

    def full(self, tensor: Tensor) -> Tensor:
        """E tanh(w) / max|tanh(w)|."""
        squashed = torch.tanh(tensor)
        return self._scale(tensor) * (squashed / _largest(squashed))

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        """Whole numbers 2i - n with i = round(n (1/2 + tanh(w) / (2 max|tanh(w)|))), so the offset is zero."""
        squashed = torch.tanh(tensor)
        if self.largest_byte is not None and bits == MAX_BITS:
            scale = self._scale(tensor) / self.largest_byte
            return Grid(
                torch.round(self.largest_byte * (squashed / _largest(squashed))), scale, torch.zeros_like(scale)
            )
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
    """Activations clipped to [0, 1], on i / (2^k - 1).

    Args:
        gradual: whether clipping is felt gradually. The gradient of an activation then falls from 1 to 0 in a line,
            from half a step inside of an end to half a step outside: what clipping does to it on average, if it moves
            by up to half a step. Where the network clips to [0, 1] itself, only the inner half of that is left.

    >>> DoReFaActivation(gradual=True).straight_through(torch.tensor([-0.1, 0.4, 0.6]), 1).tolist()
    [0.0, 0.0, 1.0]
    """

    def __init__(self, gradual: bool = False) -> None:
        super().__init__()
        self.gradual = gradual

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
        if not self.gradual:
            return self.full(tensor)
        half_step = 0.5 / (2**bits - 1)
        return _gradual_ramp(tensor, half_step) - _gradual_ramp(tensor - 1, half_step)


class DoReFaByteActivation(Quantizer):
    """DoReFa's activations; but 8 bits that are to hold negative numbers too are a signed byte of a running scale.

    A first layer reads images, a last one often reads numbers of both signs: [0, 1] would cut these off.

    >>> quantizer = DoReFaByteActivation()
    >>> quantizer.calibrate(torch.tensor([-2.54, 1.0]), 8)
    >>> quantizer.codes(torch.tensor([-2.54, 1.0]), 8).integers.tolist()
    [-127, 50]
    """

    FORGETTING = 1e-3
    """By which part the running maximum falls with every training tensor."""
    largest: Tensor
    signed: Tensor

    def __init__(self, gradual: bool = False) -> None:
        super().__init__()
        self.unsigned = DoReFaActivation(gradual)
        self.register_buffer("largest", torch.ones(()))
        self.register_buffer("signed", torch.zeros((), dtype=torch.bool))

    def full(self, tensor: Tensor) -> Tensor:
        """clip(a, 0, 1), or the activations as they are once a negative one was seen."""
        return torch.where(self.signed, tensor, self.unsigned.full(tensor))

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        """Whole numbers from 0 to 2^k - 1, or from -127 to 127."""
        unsigned = self.unsigned.grid(tensor, bits)
        if bits < MAX_BITS:
            return unsigned
        scale = self._scale(tensor)
        integers = torch.where(self.signed, torch.round(tensor / scale).clamp(-127, 127), unsigned.integers)
        return Grid(integers, torch.where(self.signed, scale, unsigned.scale), torch.zeros_like(scale))

    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        """Rounding is passed over, clipping is not."""
        unsigned = self.unsigned.surrogate(tensor, bits)
        if bits < MAX_BITS:
            return unsigned
        limit = 127 * self._scale(tensor)
        return torch.where(self.signed, torch.maximum(torch.minimum(tensor, limit), -limit), unsigned)

    @torch.no_grad()
    def calibrate(self, tensor: Tensor, bits: int) -> None:
        """Reach the example's largest number."""
        if bits == MAX_BITS:
            self.signed.copy_(tensor.min() < 0)
            self.largest.copy_(tensor.abs().max())

    @torch.no_grad()
    def observe(self, tensor: Tensor, bits: int, shared: bool = False) -> None:
        """Become signed with the first negative number; follow a larger maximum at once, a smaller one slowly."""
        if bits == MAX_BITS:
            lowest, highest = tensor.min(), tensor.abs().max().to(self.largest)
            if shared:
                lowest, highest = least(lowest), -least(-highest)
            self.signed = self.signed | (lowest < 0)
            self.largest = torch.maximum(self.largest * (1 - self.FORGETTING), highest)

    def _scale(self, tensor: Tensor) -> Tensor:
        return (self.largest / 127).clamp_min(torch.finfo(torch.float32).tiny).to(tensor.dtype)


def _gradual_ramp(tensor: Tensor, reach: float) -> Tensor:
    """max(t + u, 0), its mean over u from -reach to reach."""
    near = tensor.clamp(-reach, reach)
    return (near + reach).square() / (4 * reach) + (tensor - near).clamp_min(0)


def _largest(squashed: Tensor) -> Tensor:
    """max|tanh(w)|, kept off zero so that an all-zero weight stays zero instead of becoming NaN."""
    return squashed.abs().max().clamp_min(torch.finfo(squashed.dtype).tiny)
