"""How our quantisers are written as QONNX's.

    Quant(x)        = (round(clip(x / scale + zero point)) - zero point) scale
    BipolarQuant(x) = scale if x >= 0, else -scale

Weights that are already quantised come back bit for bit. DoReFa's of more than one bit, (E / n) times an odd whole
number from -n to n, n = 2^k - 1, are written as signed numbers of k + 1 bits. In k bits they would need a zero point of
n / 2, for which hls4ml fails and qonnx knows no type but float.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pdqat.deployment.integer.graph import Codes
from pdqat.errors import InputError
from pdqat.quantizers import Grid


@dataclass(frozen=True)
class Form:
    """A Quant node's inputs and attributes; without bits, a BipolarQuant's."""

    scale: Tensor
    bits: int | None
    signed: bool = True
    narrow: bool = False
    """Whether the lowest signed number is left out, so that the range is symmetric."""


def form_of_codes(name: str, codes: Codes, bits: int) -> Form:
    """Of the activations that layer `name` reads, or of a summand that it makes."""
    scale, half = _scale(codes), 1 << (bits - 1)
    if (codes.low, codes.high) == (-1, 1) and not codes.has_zero:
        return Form(scale, None)
    if (codes.low, codes.high) == (0, 2 * half - 1):
        return Form(scale, bits, signed=False)
    if codes.low in (-half, 1 - half) and codes.high == half - 1 and bits > 1:
        return Form(scale, bits, narrow=codes.low > -half)
    raise InputError(
        f"layer {name} can't be exported: its {bits}-bit codes from {codes.low} to {codes.high} are no range of Quant"
    )


def _scale(codes: Codes) -> Tensor:
    """DoReFa's codes are round(n x), Quant's round(x / (1 / n)), which is another number now and then.

    Of numbers on the edge of two codes only 1/2 is more than a rounding error, and sums of powers of two hit it: where
    it would get another code, the next smaller scale gives it the right one.
    """
    scale = torch.tensor(codes.value)
    middle = torch.tensor(0.5)
    if codes.factor != 1 and int(torch.round(middle / scale)) != int(codes.of(middle)):
        return torch.nextafter(scale, torch.zeros(()))
    return scale


def form_of_weights(name: str, grid: Grid, bits: int) -> Form:
    """Of a layer's quantised weights, odd numbers with one more bit."""
    if bool(grid.offset.any()):
        raise InputError(f"layer {name} can't be exported: its weights' codes have an offset")
    if not bool((grid.scale > 0).all()):
        raise InputError(f"layer {name} can't be exported: its weights' scale is 0, by which Quant would divide")
    low, high, half = int(grid.integers.min()), int(grid.integers.max()), 1 << (bits - 1)
    if bits == 1 and bool((grid.integers.abs() == 1).all()):
        return Form(grid.scale, None)
    if bits > 1 and -half <= low and high < half:
        return Form(grid.scale, bits, narrow=low > -half)
    levels = 2 * half - 1
    if max(-low, high) <= levels and bool((grid.integers % 2 == 1).all()):
        return Form(grid.scale, bits + 1, narrow=True)
    raise InputError(f"layer {name} can't be exported: its {bits}-bit weights go from {low} to {high}")
