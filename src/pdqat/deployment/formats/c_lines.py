"""Lines that round whole numbers to codes: (slope x number + start) / 2^shift above the lowest code, rounded down.

A line stands for a function if it crosses every code where the function does. If 32 bits hold what lines make, that is
what processors do fastest; it gives slopes as many bits as the largest numbers leave.
"""

from collections.abc import Sequence
from math import ceil, floor, log2

import numpy as np
from torch import Tensor

from pdqat.deployment.formats.c_rows import RowOperation
from pdqat.deployment.integer.thresholds import Steps

INT32 = 2**31 - 1
SLOPE_BITS = 30
MOST_SHIFT = 40

Line = tuple[int, int]
"""Slope and start."""


def line_rounding(steps: Sequence[Steps], sign: Tensor, lowest: int, highest: int) -> RowOperation | None:
    """By lines that 32 bits hold and that share a shift, else by others of 64 bits; None where no line is right."""
    limits = {"low": lowest, "high": highest}
    middles = [_middle(channel, lowest) for channel in steps]
    shift = min(_short_shift(channel, *middle) for channel, middle in zip(steps, middles, strict=True))
    short = _lines(steps, middles, [shift] * len(steps), lowest)
    if short is not None and all(_is_short(*line) for line in zip(steps, short, strict=True)):
        slopes, starts = np.array(short, np.int64).T
        tables = {"slopes": ("int32_t", sign.numpy() * slopes), "short_starts": ("int32_t", starts)}
        return RowOperation("by_short_line", {**limits, "shift": shift}, tables)
    shifts = [_long_shift(slope) for slope, _ in middles]
    long = _lines(steps, middles, shifts, lowest)
    if long is None:
        return None
    slopes, starts = np.array(long, np.int64).T
    tables = {"slopes": ("int32_t", sign.numpy() * slopes), "starts": ("int64_t", starts)}
    return RowOperation("by_line", limits, {**tables, "shifts": ("uint8_t", np.array(shifts))})


def _middle(steps: Steps, lowest: int) -> tuple[float, float]:
    """Slope and start of the line that keeps the largest distance to all codes, counted up from the lowest."""
    if steps.constant is not None:
        return 0.0, float(steps.constant - lowest)
    slope, offset = steps.middle_line()
    return slope, offset + 0.5 - lowest


def _short_shift(steps: Steps, slope: float, start: float) -> int:
    """The largest with which 32 bits hold a line's products and sums."""
    numbers = np.array([steps.low, steps.high], np.float64)
    largest = np.abs([*(slope * numbers), *(slope * numbers + start), start, 1.0]).max()
    return max(min(floor(log2(INT32 / largest)), SLOPE_BITS), 0)


def _long_shift(slope: float) -> int:
    """With which a slope has 30 bits."""
    return min(SLOPE_BITS - ceil(log2(max(slope, 2.0**-MOST_SHIFT))), MOST_SHIFT)


def _is_short(steps: Steps, line: Line) -> bool:
    slope, start = line
    products = [slope * steps.low, slope * steps.high]
    return all(abs(number) <= INT32 for number in (start, *products, *(product + start for product in products)))


def _lines(
    steps: Sequence[Steps], middles: Sequence[tuple[float, float]], shifts: Sequence[int], lowest: int
) -> list[Line] | None:
    """One for every channel, or None."""
    lines = []
    for channel, (slope, _), shift in zip(steps, middles, shifts, strict=True):
        line = _line(channel, round(slope * 2**shift), shift, lowest)
        if line is None:
            return None
        lines.append(line)
    return lines


def _line(steps: Steps, slope: int, shift: int, lowest: int) -> Line | None:
    """With the start that is farthest from being wrong."""
    if steps.constant is not None:
        return 0, steps.constant - lowest << shift
    levels = (steps.codes.astype(np.int64) - lowest << shift) - slope * steps.integers.astype(np.int64)
    least, most = int(levels[steps.reached].max()), int(levels[~steps.reached].min()) - 1
    return (slope, (least + most) // 2) if least <= most else None
