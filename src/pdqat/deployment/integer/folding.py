"""Folding: what lies between integers and what reads them becomes one operation."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.deployment.integer.graph import Codes
from pdqat.deployment.integer.layers import convolution
from pdqat.deployment.integer.operations import (
    ProductSums,
    RealProduct,
    RequantizedProduct,
    ScaleShift,
    SumsToCodes,
    WholeScores,
)
from pdqat.deployment.integer.requantize import requantization
from pdqat.deployment.integer.requantize_sums import SumsLine, sums_line
from pdqat.deployment.integer.values import Product, Whole

LARGEST_WEIGHT = 127
LARGEST_SCORE = 2**31 - 1


def requantized_product(base: Product, functions: tuple[nn.Module, ...], codes: Codes) -> RequantizedProduct:
    """A product, functions of it and the rounding to codes, in one operation."""
    epilogue = _epilogue(base, functions, codes)
    fine = LARGEST_WEIGHT // max(int(base.weight.abs().max()), 1)
    lines, sign = requantization(epilogue, base.low, base.high, codes.above_lowest, fine, codes.shift)
    factor = fine * sign * ~lines.constant
    weight = base.weight * factor.view(-1, *[1] * (base.weight.dim() - 1))
    return RequantizedProduct(
        weight,
        convolution(base.name, base.layer),
        base.signed,
        lines.multiplier,
        lines.offset,
        lines.exact,
        lines.misplaced * _steepness(base.scale, functions, codes),
        codes.low,
        codes.high,
        codes.is_summand,
    )


def rounded_product(base: Product, functions: tuple[nn.Module, ...], codes: Codes) -> tuple[ProductSums, SumsToCodes]:
    """The same in two operations, by a line in real numbers: its offset is finer than a whole number."""
    lines = sums_line(_epilogue(base, functions, codes), base.low, base.high, codes.above_lowest, 0, codes.shift)
    sums = ProductSums(base.weight, convolution(base.name, base.layer), base.signed)
    return sums, _rounding(lines, 0, codes, _steepness(base.scale, functions, codes), sums.channel_dim)


def _epilogue(base: Product, functions: tuple[nn.Module, ...], codes: Codes) -> Callable[[Tensor], Tensor]:
    bias = base.layer.bias

    def epilogue(integers: Tensor) -> Tensor:
        values = (integers.double() * base.scale[:, None]).float()
        values = values if bias is None else values + bias[:, None]
        return _apply(functions, codes, values)

    return epilogue


def requantized_sum(base: Whole, functions: tuple[nn.Module, ...], codes: Codes) -> SumsToCodes:
    """Functions of a sum and the rounding to codes, in one operation."""
    channels = next((len(function.running_mean) for function in functions if isinstance(function, _BatchNorm)), 1)  # type: ignore[arg-type]

    def epilogue(integers: Tensor) -> Tensor:
        return _apply(functions, codes, (integers.double() * base.step).float())

    low, high = torch.full((channels,), base.low), torch.full((channels,), base.high)
    lines = sums_line(epilogue, low, high, codes.above_lowest, base.above, codes.shift)
    steepness = _steepness(torch.tensor(base.step, dtype=torch.float64), functions, codes)
    return _rounding(lines, base.above, codes, steepness, channel_dim=1)


def _rounding(line: SumsLine, above: int, codes: Codes, steepness: Tensor, channel_dim: int) -> SumsToCodes:
    return SumsToCodes(
        line.slope,
        line.shift,
        line.exact,
        line.misplaced * steepness,
        above,
        codes.low,
        codes.high,
        codes.is_summand,
        channel_dim,
    )


def _steepness(scale: Tensor, functions: tuple[nn.Module, ...], codes: Codes) -> Tensor:
    """Per channel, how many codes at most the next integer is away in float32: clips only make that less."""
    for function in functions:
        if isinstance(function, _BatchNorm):
            scale = scale * _scale_and_shift(function)[0].abs()
    return scale / codes.value


def real_product(base: Product, scores: WholeScores | None = None) -> RealProduct:
    """A product in real numbers; with the bias of the scores, if it makes those."""
    bias = torch.zeros(len(base.scale)) if base.layer.bias is None else base.layer.bias.detach().clone()
    return RealProduct(
        base.weight,
        convolution(base.name, base.layer),
        base.signed,
        base.scale.float(),
        bias if scores is None else (scores.offset.double() * scores.step).float(),
        scores,
    )


def whole_scores(base: Product) -> WholeScores | None:
    """A product and its bias as whole numbers of the finest step that 32 bits allow; None if channels have scales.

    The bias is rounded to half a step, which is 2^-31 of the largest score, or little more.
    """
    scale = float(base.scale[0])
    if bool((base.scale != scale).any()):
        return None
    reach = float(torch.maximum(base.low.abs(), base.high.abs()).max())
    if base.layer.bias is None:
        return WholeScores(0, torch.zeros(len(base.scale), dtype=torch.int32), scale) if reach < LARGEST_SCORE else None
    bias = base.layer.bias.detach().double() / scale
    reach += float(bias.abs().max()) + 1
    if not reach < LARGEST_SCORE:
        return None
    shift = math.floor(math.log2(LARGEST_SCORE / reach))
    return WholeScores(shift, torch.round(bias * 2**shift).to(torch.int32), scale / 2**shift)


def folded_norm(function: nn.Module) -> nn.Module:
    """A batch norm as scale and shift; any other function as it is."""
    if not isinstance(function, _BatchNorm):
        return function
    scale, shift = _scale_and_shift(function)
    return ScaleShift(scale.float(), shift.float())


def _scale_and_shift(norm: _BatchNorm) -> tuple[Tensor, Tensor]:
    """In float64."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = torch.rsqrt(norm.running_var.double() + norm.eps)
    scale = scale if norm.weight is None else scale * norm.weight.double()
    shift = -norm.running_mean.double() * scale
    return scale, shift if norm.bias is None else shift + norm.bias.double()


def _apply(functions: tuple[nn.Module, ...], codes: Codes, values: Tensor) -> Tensor:
    """Codes of values (channels, n)."""
    values = values.T.contiguous()  # samples first, as modules want it
    for function in functions:
        if isinstance(function, _BatchNorm):  # whatever its number of dimensions
            means, variances = function.running_mean, function.running_var
            values = F.batch_norm(values, means, variances, function.weight, function.bias, eps=function.eps)
        else:
            values = function(values)
    return codes.of(values).T
