"""Requantisation of sums: per channel slope and shift, so that round(slope x sum + shift) is what float32 makes of it.

A sum is held in float32 with the zero points of its summands, which may be thousands of steps away from where its codes
change: slope x sum and shift are large numbers that nearly cancel, and their rounding to float32 can decide a code. So
slopes around that of the line with the most room are tried, each with the shift in the middle of what the rounded
products leave, and what they make is looked up in the arithmetic of each runtime.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pdqat.deployment.integer.requantize import OWN_CONSTANTS, UNIT
from pdqat.deployment.integer.thresholds import Steps, rising

NEIGHBOURS = 32
"""So many float32 numbers on either side of a slope are tried."""


@dataclass(frozen=True)
class SumsLine:
    """Per channel: code = round(slope x (sum + above) + shift), clipped to the codes."""

    slope: Tensor
    shift: Tensor
    exact: Tensor
    """Whether the codes are those of the function for every sum within reach, in the arithmetic of every runtime."""
    misplaced: Tensor
    """By how many sums, at most, a code begins earlier or later than in the function: 0 where they are exact."""


def sums_line(
    function: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, codes: Tensor, above: int, zero: int = 0
) -> SumsLine:
    """The line of a function from sums (channels, n) to codes that rises or falls.

    above   is held with every sum: the zero points of its summands
    zero    what a runtime may add before it rounds
    """
    steps, sign = rising(function, low, high, codes)
    fits = [_fit(channel, int(slope_sign), above, zero) for channel, slope_sign in zip(steps, sign, strict=True)]
    slopes, shifts, distances = zip(*fits, strict=True)
    misplaced = torch.tensor(distances)
    slope, shift = (torch.tensor(numbers, dtype=torch.float32) for numbers in (slopes, shifts))
    return SumsLine(slope, shift, misplaced == 0, misplaced)


def sums_codes(slope: np.float32, shift: np.float32, held: np.ndarray, zero: int) -> list[np.ndarray]:
    """What round(slope x held + shift) can be in the arithmetics of runtimes.

    The integer reference and ONNX Runtime round product and sum to float32, others the sum only. OpenVINO computes
    constants of its own from slope, shift and the codes' limits: its lines lie a little higher or lower.
    """
    product = held.astype(np.float64) * slope
    apart, fused = held.astype(np.float32) * slope + shift, (product + shift).astype(np.float32)
    off = OWN_CONSTANTS * UNIT * (np.abs(product) + abs(float(shift)) + zero)
    return [np.rint(values) for values in (apart, fused, product + shift - off, product + shift + off)]


def _fit(steps: Steps, sign: int, above: int, zero: int) -> tuple[np.float32, np.float32, int]:
    """Slope, shift, and by how many sums they miss the steps: what meets them in all arithmetics, or in the most."""
    if steps.constant is not None:
        return np.float32(0.0), np.float32(steps.constant), 0
    held = sign * steps.integers + above
    middle = np.array(steps.middle_line()[0], np.float32).view(np.int32)
    slopes = sign * (middle + np.arange(-NEIGHBOURS, NEIGHBOURS + 1, dtype=np.int32)).view(np.float32)
    products = [slopes[:, None] * held.astype(np.float32), slopes[:, None].astype(np.float64) * held]
    limits = [steps.offsets(numbers.astype(np.float64)) for numbers in products]
    least, most = np.maximum(limits[0][0], limits[1][0]), np.minimum(limits[0][1], limits[1][1])
    shifts = ((least + most) / 2).astype(np.float32)
    fits = []
    for index in np.argsort(least - most, kind="stable"):  # the most room first
        line = slopes[index], shifts[index]
        met = [steps.are_met(codes) for codes in sums_codes(*line, held, zero)]
        if all(met):
            return *line, 0
        fits.append((sum(met), line))
    line = max(fits, key=lambda fit: fit[0])[1]
    return *line, steps.misplaced(lambda integers: sums_codes(*line, sign * integers + above, zero))
