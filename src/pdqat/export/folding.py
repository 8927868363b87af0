"""Folding: what lies between integers and what reads them becomes one operation."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.export.graph import Codes, convolution
from pdqat.export.operations import ProductSums, RealProduct, RequantizedProduct, ScaleShift, SumsToCodes
from pdqat.export.requantize import requantization
from pdqat.export.requantize_sums import sums_line
from pdqat.export.values import Product, Whole

LARGEST_WEIGHT = 127


def requantized_product(base: Product, functions: tuple[nn.Module, ...], codes: Codes) -> RequantizedProduct:
    """A product, functions of it and the rounding to codes, in one operation."""
    epilogue = _epilogue(base, functions, codes)
    fine = LARGEST_WEIGHT // max(int(base.weight.abs().max()), 1)
    found, sign = requantization(epilogue, base.low, base.high, codes.above_lowest, fine, codes.zero)
    factor = fine * sign * ~found.constant
    weight = base.weight * factor.view(-1, *[1] * (base.weight.dim() - 1))
    return RequantizedProduct(
        weight,
        convolution(base.name, base.layer),
        base.signed,
        found.multiplier,
        found.offset,
        found.exact,
        codes.low,
        codes.high,
        codes.is_summand,
    )


def rounded_product(base: Product, functions: tuple[nn.Module, ...], codes: Codes) -> tuple[ProductSums, SumsToCodes]:
    """The same in two operations, by a line in real numbers: its offset is finer than a whole number."""
    found = sums_line(_epilogue(base, functions, codes), base.low, base.high, codes.above_lowest, 0, codes.zero)
    sums = ProductSums(base.weight, convolution(base.name, base.layer), base.signed)
    return sums, SumsToCodes(found.slope, found.shift, found.exact, 0, codes.low, codes.high, codes.is_summand)


def _epilogue(base: Product, functions: tuple[nn.Module, ...], codes: Codes) -> Callable[[Tensor], Tensor]:
    bias = base.layer.bias

    def epilogue(integers: Tensor) -> Tensor:
        values = (integers.double() * base.scale[:, None]).float()
        values = values if bias is None else values + bias[:, None]
        return _apply(functions, codes, values)

    return epilogue


def requantized_sum(base: Whole, functions: tuple[nn.Module, ...], codes: Codes) -> SumsToCodes:
    """Functions of a sum and the rounding to codes, in one operation."""
    channels = next((len(each.running_mean) for each in functions if isinstance(each, _BatchNorm)), 1)  # type: ignore[arg-type]

    def epilogue(integers: Tensor) -> Tensor:
        return _apply(functions, codes, (integers.double() * base.step).float())

    low, high = torch.full((channels,), base.low), torch.full((channels,), base.high)
    found = sums_line(epilogue, low, high, codes.above_lowest, base.above, codes.zero)
    return SumsToCodes(found.slope, found.shift, found.exact, base.above, codes.low, codes.high, codes.is_summand)


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
    assert function.running_mean is not None
    assert function.running_var is not None
    scale = torch.rsqrt(function.running_var.double() + function.eps)
    scale = scale if function.weight is None else scale * function.weight.double()
    shift = -function.running_mean.double() * scale
    shift = shift if function.bias is None else shift + function.bias.double()
    return ScaleShift(scale.float(), shift.float())


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
