"""The operations of a deployed network, on integers. Together they are the integer reference: what is correct.

Codes and sums are int32 tensors here; a file stores them in as few bits as they need. Convolutions and products are
computed in float64, which holds every whole number that can occur (below 2^53) exactly, whatever the order of the sum.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SUMMAND_ZERO = 128
"""The zero point with which summands are stored in unsigned bytes."""


def shift_of(low: int) -> int:
    """What a runtime may add to codes from `low` on before it rounds them.

    Summands have a zero point; OpenVINO rounds other signed codes as unsigned ones too. So numbers near 0 are rounded
    with the error that float32 has near 128.
    """
    return SUMMAND_ZERO if low < 0 else 0


LARGEST_EXACT = 2**24
"""Up to here float32 holds every whole number."""
_CONVOLUTIONS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
_TRANSPOSED = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}


def rounded(values: Tensor, low: int, high: int) -> Tensor:
    """To the nearest whole number, halves to the even one, within the codes."""
    return torch.round(values).clamp(low, high).to(torch.int32)


def per_channel(vector: Tensor, like: Tensor, dim: int = 1) -> Tensor:
    """A number for each channel, shaped to meet a tensor that has its channels in a dimension."""
    shape = [1] * like.dim()
    shape[dim] = -1
    return vector.view(shape)


@dataclass(frozen=True)
class PerChannel:
    """A number for each channel of a tensor."""

    numbers: Tensor
    dim: int
    """Which dimension the channels are."""

    def meeting(self, like: Tensor) -> Tensor:
        """Shaped to meet a tensor."""
        return per_channel(self.numbers, like, self.dim)


class Requantizes(Protocol):
    """What rounds whole numbers by a line of integers."""

    multiplier: Tensor
    offset: Tensor
    low: int
    high: int

    @property
    def channel_dim(self) -> int:
        """Which dimension is the channels."""


def requantized(operation: Requantizes, total: Tensor) -> Tensor:
    """round(multiplier x (total + offset)) of whole numbers."""
    vectors = (operation.offset, operation.multiplier)
    offset, multiplier = (per_channel(vector, total, operation.channel_dim) for vector in vectors)
    return rounded((total + offset).float() * multiplier, operation.low, operation.high)


class IntegerProduct(nn.Module):
    """What convolutions and linear layers on codes share: integer weights, and how they are applied."""

    weight: Tensor

    def __init__(self, weight: Tensor, convolution: dict[str, Any], signed: bool) -> None:
        super().__init__()
        self.register_buffer("weight", weight.to(torch.int8))
        self.convolution = convolution
        """Stride, padding, dilation and groups; empty for a linear layer, with output_padding if it is transposed."""
        self.signed = signed
        """Whether a file stores the weights as signed bytes."""

    @property
    def is_transposed(self) -> bool:
        """Whether it is a transposed convolution."""
        return "output_padding" in self.convolution

    @property
    def channel_dim(self) -> int:
        """Which dimension of the output is its channels: the last one of a linear layer's."""
        return -1 if self.weight.dim() == 2 else 1

    def accumulate(self, codes: Tensor) -> Tensor:
        """The sums of products, whole numbers in float64."""
        return self.apply_weight(codes.double(), self.weight.double())

    def apply_weight(self, codes: Tensor, weight: Tensor) -> Tensor:
        """The convolution or product with any weight of the same shape."""
        if weight.dim() == 2:
            return F.linear(codes, weight)
        if self.is_transposed:
            return _TRANSPOSED[weight.dim()](codes, self.inputs_first(weight), **self.convolution)
        return _CONVOLUTIONS[weight.dim()](codes, weight, **self.convolution)

    def inputs_first(self, weight: Tensor) -> Tensor:
        """A transposed convolution's weight as torch and files have it: input channels first, group by group."""
        apart = weight.view(self.convolution["groups"], -1, *weight.shape[1:]).transpose(1, 2)
        return apart.flatten(0, 1).contiguous()


class RequantizedProduct(IntegerProduct):
    """Codes in, codes out: round(multiplier x (product + offset)) per channel, the last product in float32."""

    multiplier: Tensor
    offset: Tensor
    exact: Tensor
    """Per channel, whether every runtime computes these codes; else integers may lie on the edge of two of them."""
    most_off: Tensor
    """Per channel, how far what is rounded can be from what float32 makes of the same integer, in codes: 0 if exact."""

    def __init__(
        self,
        weight: Tensor,
        convolution: dict[str, Any],
        signed: bool,
        multiplier: Tensor,
        offset: Tensor,
        exact: Tensor,
        most_off: Tensor,
        low: int,
        high: int,
        is_summand: bool,
    ) -> None:
        super().__init__(weight, convolution, signed)
        self.register_buffer("multiplier", multiplier)
        self.register_buffer("offset", offset)
        self.register_buffer("exact", exact)
        self.register_buffer("most_off", most_off)
        self.low, self.high = low, high
        self.is_summand = is_summand
        """Whether the codes are added to others, rather than read by a layer."""

    def forward(self, codes: Tensor) -> Tensor:
        """The codes of the output."""
        return self.requantize(self.accumulate(codes))

    @property
    def held(self) -> Tensor:
        """Per channel, the size of what is added to the sums."""
        return self.offset.double().abs()

    def requantize(self, total: Tensor) -> Tensor:
        """The codes of sums of products."""
        return requantized(self, total)


class ProductSums(IntegerProduct):
    """Codes in, sums of products out: for a rounding that no integer offset reproduces."""

    def forward(self, codes: Tensor) -> Tensor:
        """The sums, as whole numbers."""
        return self.accumulate(codes).to(torch.int32)


@dataclass(frozen=True, eq=False)
class WholeScores:
    """How a product with its bias is whole numbers of 32 bits: 2^shift x product + offset, in units of a step."""

    shift: int
    offset: Tensor
    """Per channel, the bias in steps."""
    step: float


class RealProduct(IntegerProduct):
    """Codes in, real numbers out: scale x product + bias, for outputs that are not rounded."""

    scale: Tensor
    bias: Tensor

    def __init__(
        self,
        weight: Tensor,
        convolution: dict[str, Any],
        signed: bool,
        scale: Tensor,
        bias: Tensor,
        scores: WholeScores | None = None,
    ) -> None:
        super().__init__(weight, convolution, signed)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)
        self.scores = scores
        """The same numbers as whole ones, where they are the network's output; the bias is then a number of steps."""

    def forward(self, codes: Tensor) -> Tensor:
        """The output in float32."""
        total = self.accumulate(codes).float()
        scale, bias = (per_channel(vector, total, self.channel_dim) for vector in (self.scale, self.bias))
        return total * scale + bias


class ToCodes(nn.Module):
    """Real numbers to codes: round(factor x value / step)."""

    def __init__(self, factor: float, step: float, low: int, high: int, is_summand: bool) -> None:
        super().__init__()
        self.factor, self.step, self.low, self.high = factor, step, low, high
        self.is_summand = is_summand

    def forward(self, values: Tensor) -> Tensor:
        """The nearest codes."""
        return rounded(values * self.factor / self.step, self.low, self.high)


class ToReal(nn.Module):
    """Whole numbers of a step to real numbers."""

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = step

    def forward(self, codes: Tensor) -> Tensor:
        """In float32."""
        return codes.float() * self.step


class LookUp(nn.Module):
    """Indices in, rows of a table out: whole numbers, times the scale of the table or of their row."""

    table: Tensor
    scale: Tensor

    def __init__(self, table: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table.to(torch.int8))
        self.register_buffer("scale", scale)
        """One number, or one for every row."""

    def forward(self, indices: Tensor) -> Tensor:
        """The rows in float32."""
        scale = self.scale if self.scale.dim() == 0 else self.scale[indices].unsqueeze(-1)
        return F.embedding(indices, self.table).float() * scale


class ScaleShift(nn.Module):
    """A batch norm in real numbers, with its statistics folded: scale x value + shift per channel."""

    scale: Tensor
    shift: Tensor

    def __init__(self, scale: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    def forward(self, values: Tensor) -> Tensor:
        """The normalised values."""
        return values * per_channel(self.scale, values) + per_channel(self.shift, values)


class Clip(nn.Module):
    """Real or whole numbers within limits; None is no limit."""

    def __init__(self, low: float | None, high: float | None) -> None:
        super().__init__()
        self.low, self.high = low, high

    def forward(self, values: Tensor) -> Tensor:
        """The clipped values."""
        return values.clamp(self.low, self.high)
