"""Roundings in integers: what the reference makes of whole numbers in float32, exactly, without a real number.

A rounding is a function of one whole number that never falls, or never rises, and is known by its thresholds. Few of
them are stored as they are. Of many a line is stored, slope x sum + start, if it crosses every code where the function
does. Where none does, as for products of bytes that come too close to an edge, the roundings of float32 themselves are
computed in integers.
"""

from collections.abc import Callable
from math import ceil, frexp, log2

import numpy as np
import torch
from torch import Tensor

from pdqat.deployment.formats.c_lines import INT32, SLOPE_BITS, line_rounding
from pdqat.deployment.formats.c_rows import RowOperation
from pdqat.deployment.formats.c_weights import Weights
from pdqat.deployment.integer.operations import RealProduct, RequantizedProduct
from pdqat.deployment.integer.sum_operations import RequantizedSum, SumsToCodes
from pdqat.deployment.integer.thresholds import Steps, rising

FEW = 3
"""Thresholds that take no more place than a line."""
MANTISSA = 24
"""Bits of a float32."""
VANISHING = 57
"""Where the point is so far left, no product of 32 and 24 bits reaches a half."""
SCORE_BITS = 30


def product_rounding(
    operation: RequantizedProduct, divisor: int, low: Tensor, high: Tensor, in_float32: bool = False
) -> RowOperation | None:
    """Of sums, divided by the divisor of the weights, which reach from low to high.

    None where no thresholds or line are stored, unless they are rounded as float32 does.
    """

    def codes(integers: Tensor) -> Tensor:
        return operation.requantize((divisor * integers).T.double()).T

    if in_float32:
        return _by_float32(operation, divisor)
    return _exactly(codes, low, high, operation.low, operation.high)


def sums_rounding(operation: SumsToCodes | RequantizedSum, low: int, high: int) -> RowOperation:
    """Of whole numbers from low to high."""
    channels = torch.ones(len(operation.exact), dtype=torch.int64)

    def codes(integers: Tensor) -> Tensor:
        made: Tensor = operation(integers.T)
        return made.T

    ends = low * channels, high * channels
    rounding = _exactly(codes, *ends, operation.low, operation.high)
    if rounding is not None:
        return rounding
    above_lowest = torch.arange(operation.low + 1, operation.high + 1)
    return _by_thresholds(*rising(codes, *ends, above_lowest), operation.low, operation.high)


def real_rounding(operation: RealProduct, weights: Weights) -> RowOperation:
    """To scale x sum + bias."""
    tables = {"scales": ("float", operation.scale.numpy()), "biases": ("float", operation.bias.numpy())}
    return RowOperation("as_real", {"divisor": weights.divisor}, tables)


def score_rounding(operation: RealProduct, weights: Weights, low: Tensor, high: Tensor) -> tuple[RowOperation, float]:
    """Scores in whole numbers, and their unit: the reference's own, or scale x sum + bias to 30 bits."""
    own = operation.scores
    if own is not None:
        slopes = np.full(len(own.offset), weights.divisor << own.shift)
        return _scores(slopes, own.offset.numpy().astype(np.int64), 0), own.step
    scale, bias = operation.scale.double().numpy() * weights.divisor, operation.bias.double().numpy()
    ends = np.abs(np.stack([scale * low.numpy() + bias, scale * high.numpy() + bias]))
    largest = max(float(ends.max()), float(np.abs(scale).max()), float(np.finfo(np.float32).tiny))
    unit = 2.0 ** (ceil(log2(largest)) - SCORE_BITS)
    steepest = max(float(np.abs(scale).max()) / unit, 1.0)
    shift = min(SLOPE_BITS - ceil(log2(steepest)), SLOPE_BITS)
    slopes = np.rint(scale / unit * 2.0**shift).astype(np.int64)
    starts = np.rint(bias / unit * 2.0**shift).astype(np.int64) + (1 << shift >> 1)
    return _scores(slopes, starts, shift), unit


def _scores(slopes: np.ndarray, starts: np.ndarray, shift: int) -> RowOperation:
    """(slope x sum + start) >> shift, computed above zero."""
    tables = {
        "slopes": ("int32_t", slopes),
        "starts": ("int64_t", starts + (1 << (31 + shift))),
        "shifts": ("uint8_t", np.full(len(slopes), shift)),
    }
    return RowOperation("as_scores", {}, tables)


def apply_scores(rounding: RowOperation, sums: np.ndarray) -> np.ndarray:
    """What `as_scores` makes of sums (..., channels)."""
    slopes, starts, shifts = (rounding.tables[field][1].astype(np.int64) for field in ("slopes", "starts", "shifts"))
    return np.asarray((slopes * sums + starts >> shifts) - (1 << 31), np.int32)


def _exactly(
    codes: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, lowest: int, highest: int
) -> RowOperation | None:
    """By thresholds if they are few, else by a line if there is one."""
    steps, sign = rising(codes, low, high, torch.arange(lowest + 1, highest + 1))
    if highest - lowest <= FEW:
        return _by_thresholds(steps, sign, lowest, highest)
    return line_rounding(steps, sign, lowest, highest)


def _by_thresholds(steps: list[Steps], sign: Tensor, lowest: int, highest: int) -> RowOperation:
    """Where codes fall, those are counted down from the highest whose numbers are past the threshold of -number."""
    thresholds = []
    for channel, slope in zip(steps, sign.tolist(), strict=True):
        at = channel.thresholds
        if channel.constant is not None:
            at = np.where(channel.every_code <= channel.constant, -INT32 - 1, INT32)
        thresholds.append(np.clip(at if slope > 0 else np.sort(1 - at), -INT32 - 1, INT32))
    directions = np.where([channel.constant is None for channel in steps], sign.numpy(), 1)
    is_counted = highest - lowest <= FEW
    by_channel = np.array(thresholds)
    tables = {"thresholds": ("int32_t", by_channel.T if is_counted else by_channel)}
    if (directions < 0).any():
        tables["directions"] = ("int8_t", directions)
    kernel = "by_thresholds" if is_counted else "by_search"
    return RowOperation(kernel, {"low": lowest, "high": highest, "count": highest - lowest}, tables)


def _by_float32(operation: RequantizedProduct, divisor: int) -> RowOperation:
    """The multiplier's 24 bits, and where their point is."""
    parts = [frexp(multiplier) for multiplier in operation.multiplier.tolist()]
    shifts = np.array([MANTISSA - exponent for _, exponent in parts])
    mantissas = np.array([int(mantissa * 2**MANTISSA) for mantissa, _ in parts])
    vanishing = shifts > VANISHING
    tables = {
        "slopes": ("int32_t", np.where(vanishing, 0, mantissas)),
        "starts": ("int64_t", operation.offset.numpy()),
        "shifts": ("uint8_t", np.where(vanishing, 1, shifts)),
    }
    return RowOperation("by_float32", {"low": operation.low, "high": operation.high, "divisor": divisor}, tables)
