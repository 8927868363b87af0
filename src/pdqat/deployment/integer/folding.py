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
    WholeScores,
)
from pdqat.deployment.integer.requantize import Requantization, requantization
from pdqat.deployment.integer.requantize_sums import SumsLine, sums_line
from pdqat.deployment.integer.sum_operations import RequantizedSum, SumsToCodes
from pdqat.deployment.integer.values import LARGEST_WEIGHT, Product, Whole

LARGEST_SCORE = 2**31 - 1
MOST_CHANNELS = 256
"""Of summands side by side, up to which a convolution adds and rounds them faster than float32 does."""
FACTORS = (LARGEST_WEIGHT, 125, 122, 119, 113, 109, 103, 101)
"""Of summands: the larger, the finer is the grid of offsets; others have another grid."""


def requantized_product(base: Product, functions: tuple[nn.Module, ...], codes: Codes) -> RequantizedProduct:
    """A product, functions of it and the rounding to codes, in one operation."""
    epilogue = _epilogue(base, functions, codes)
    largest = base.largest_signed if base.is_signed else LARGEST_WEIGHT
    fine = largest // max(int(base.weight.abs().max()), 1)
    lines, sign = requantization(epilogue, base.low, base.high, codes.above_lowest, fine, codes.shift)
    factor = fine * sign * ~lines.constant
    weight = base.weight * factor.view(-1, *[1] * (base.weight.dim() - 1))
    return RequantizedProduct(
        weight,
        convolution(base.name, base.layer),
        base.is_signed,
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
    sums = ProductSums(base.weight, convolution(base.name, base.layer), base.is_signed)
    return sums, _rounding(lines, 0, codes, _steepness(base.scale, functions, codes), sums.channel_dim)


def _epilogue(base: Product, functions: tuple[nn.Module, ...], codes: Codes) -> Callable[[Tensor], Tensor]:
    bias = base.layer.bias

    def epilogue(integers: Tensor) -> Tensor:
        values = (integers.double() * base.scale[:, None]).float()
        values = values if bias is None else values + bias[:, None]
        return _apply(functions, codes, values)

    return epilogue


def rounded_sum(base: Whole, functions: tuple[nn.Module, ...], codes: Codes) -> SumsToCodes | RequantizedSum:
    """Functions of a sum and the rounding to codes, in one operation: in integers where they are as exact, and fast."""
    if base.channels > 1 and base.channels * base.summands <= MOST_CHANNELS:
        in_integers = _requantized_sum(base, functions, codes)
        if bool(in_integers.exact.all()):
            return in_integers
    return _sums_to_codes(base, functions, codes)


def _sums_to_codes(base: Whole, functions: tuple[nn.Module, ...], codes: Codes) -> SumsToCodes:
    channels = next((len(function.running_mean) for function in functions if isinstance(function, _BatchNorm)), 1)  # type: ignore[arg-type]
    low, high = torch.full((channels,), base.low), torch.full((channels,), base.high)
    lines = sums_line(_sum_epilogue(base, functions, codes), low, high, codes.above_lowest, base.above, codes.shift)
    return _rounding(lines, base.above, codes, _sum_steepness(base, functions, codes), channel_dim=1)


def _requantized_sum(base: Whole, functions: tuple[nn.Module, ...], codes: Codes) -> RequantizedSum:
    """Each channel with the first factor that makes it exact, if there is one.

    A factor may be as large as a byte holds: of two summands next to each other only one counts, the channel's own.
    """
    low, high = torch.full((base.channels,), base.low), torch.full((base.channels,), base.high)
    epilogue = _sum_epilogue(base, functions, codes)
    found: Requantization | None = None
    factor = torch.zeros(base.channels, dtype=torch.int64)
    for fine in FACTORS:
        lines, sign = requantization(epilogue, low, high, codes.above_lowest, fine, codes.shift, base.above)
        better = torch.ones_like(lines.exact) if found is None else lines.exact & ~found.exact
        factor = torch.where(better, fine * sign * ~lines.constant, factor)
        found = lines if found is None else found.replaced(better, lines)
        if bool(found.exact.all()):
            break
    assert found is not None
    most_off = found.misplaced * _sum_steepness(base, functions, codes)
    return RequantizedSum(
        factor,
        found.multiplier,
        found.offset,
        found.exact,
        most_off,
        base.above,
        codes.low,
        codes.high,
        codes.is_summand,
    )


def _sum_epilogue(base: Whole, functions: tuple[nn.Module, ...], codes: Codes) -> Callable[[Tensor], Tensor]:
    return lambda integers: _apply(functions, codes, (integers.double() * base.step).float())


def _sum_steepness(base: Whole, functions: tuple[nn.Module, ...], codes: Codes) -> Tensor:
    return _steepness(torch.tensor(base.step, dtype=torch.float64), functions, codes)


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
        base.is_signed,
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
