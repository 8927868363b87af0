"""Folding: what lies between integers and what reads them becomes one operation."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.deployment.integer.graph import Codes
from pdqat.deployment.integer.layers import convolution
from pdqat.deployment.integer.operations import ProductSums, RealProduct, RequantizedProduct, ScaleShift, SumsToCodes
from pdqat.deployment.integer.requantize import requantization
from pdqat.deployment.integer.requantize_sums import SumsLine, sums_line
from pdqat.deployment.integer.values import Product, Whole

LARGEST_WEIGHT = 127


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


def real_product(base: Product) -> RealProduct:
    """A product in real numbers."""
    bias = base.layer.bias
    zeros = torch.zeros(len(base.scale))
    return RealProduct(
        base.weight,
        convolution(base.name, base.layer),
        base.signed,
        base.scale.float(),
        zeros if bias is None else bias.detach().clone(),
    )


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
