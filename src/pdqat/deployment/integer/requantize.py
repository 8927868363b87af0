"""Requantisation: per channel M and an integer B, so that round(M (fine x acc + B)) is what float32 makes of acc.

All that stands between an integer accumulator and the code that the next layer reads (scale, norm, clip, rounding) is a
function of one number that never falls. So it is known by its thresholds T_j. A line gives the same codes if it crosses
j - 1/2 between T_j - 1 and T_j for every j:

    M (fine x T_j + B) >= j - 1/2 > M (fine x (T_j - 1) + B)

For a given integer B these are bounds on M. Of all B the one is taken that leaves M the widest interval, and M from its
middle, so that no rounding of a runtime's own arithmetic comes near a threshold. Whether any does is looked up, in the
arithmetic of each runtime.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from pdqat.deployment.integer.thresholds import STEEPEST, Steps, rising

WIDEST_SEARCH = 1 << 18
"""Candidates for B times thresholds, of one channel."""
TRIES = 64
"""So many of them are looked at in the arithmetic of the runtimes."""
LEAST_ROOM = 1 + 4 * float(np.finfo(np.float32).eps)
"""The least ratio of the bounds on M."""
NUDGES, NUDGE = 64, 2.0**-22
"""How many other multipliers are tried where no line is exact, and how far they are apart."""
INT32 = 2**31 - 1
UNIT = 2.0**-24
"""What float32 rounds by, as a part of the number."""
OWN_CONSTANTS = 2.0
"""How far OpenVINO's lines of sums are off at most, in units of the numbers that are added: 1.4 was measured."""
OWN_PRODUCTS = 3.0
"""The same for lines of products: 2.3 was measured."""


@dataclass(frozen=True)
class Requantization:
    """Per channel: code = round(multiplier x (fine x integer + offset)), clipped to the codes."""

    multiplier: Tensor
    offset: Tensor
    exact: Tensor
    """Whether the codes are those of float32 for every integer within reach, in the arithmetic of every runtime."""
    misplaced: Tensor
    """By how many integers, at most, a code begins earlier or later than in float32: 0 where they are exact."""
    constant: Tensor
    """Whether there is one code for all of them: then it is the offset, and integers count nothing."""

    def replaced(self, where: Tensor, other: "Requantization") -> "Requantization":
        """With another's numbers in some channels."""
        names = (field.name for field in fields(self))
        return Requantization(*(torch.where(where, getattr(other, name), getattr(self, name)) for name in names))


def requantization(
    function: Callable[[Tensor], Tensor],
    low: Tensor,
    high: Tensor,
    codes: Tensor,
    fine: int,
    zero: int = 0,
    above: int = 0,
) -> tuple[Requantization, Tensor]:
    """The line of a function from integers (channels, n) to codes that rises or falls, and the sign of its slope.

    Where it falls the line is that of -integer. Before it rounds a runtime may add `zero`, and it holds integers with
    `above`, the zero points of their summands.
    """
    steps, sign = rising(function, low, high, codes)
    multipliers, offsets, distances = zip(*(_fit(channel, fine, zero, above) for channel in steps), strict=True)
    misplaced = torch.tensor(distances)
    lines = Requantization(
        torch.tensor(multipliers, dtype=torch.float32),
        torch.tensor(offsets, dtype=torch.int32),
        misplaced == 0,
        misplaced,
        torch.tensor([channel.constant is not None for channel in steps]),
    )
    return lines, sign


def known_codes(multiplier: np.float32, offset: int, totals: np.ndarray, zero: int) -> list[np.ndarray]:
    """What round(multiplier x (total + offset)) is in the arithmetics of runtimes that are known.

    ONNX Runtime and the integer reference add whole numbers, and round them to float32 if they exceed 2^24. OpenVINO
    adds offset x multiplier, as a real number, and then the zero point, before it rounds; other processors may add
    without rounding the product.
    """
    together = (totals + offset).astype(np.float32) * multiplier
    bias = np.float32(offset) * multiplier
    apart = totals.astype(np.float32) * multiplier + bias
    fused = (totals.astype(np.float32) * np.float64(multiplier) + bias).astype(np.float32)
    return [
        np.rint(numbers + np.float32(point)) - point
        for numbers in (together, apart, fused)
        for point in sorted({0, zero})
    ]


def product_codes(
    multiplier: np.float32, offset: int, totals: np.ndarray, zero: int, held: int = 0
) -> list[np.ndarray]:
    """The same, and what it can be where there are zero points.

    OpenVINO adds them and takes them out again by constants of its own: its lines lie a little higher or lower.
    """
    known = known_codes(multiplier, offset, totals, zero)
    if not held and not zero:
        return known
    product, constant = totals * np.float64(multiplier), offset * float(multiplier)
    off = OWN_PRODUCTS * UNIT * (np.abs(product) + abs(constant) + held * float(multiplier) + zero)
    return [*known, np.rint(product + constant - off), np.rint(product + constant + off)]


def _fit(steps: Steps, fine: int, zero: int, above: int) -> tuple[np.float32, int, int]:
    """Multiplier, offset, and by how many integers they miss the thresholds; the nearest ones where none meet them."""
    if steps.constant is not None:
        return np.float32(1.0), steps.constant, 0
    totals, held = fine * steps.integers, fine * above
    slope, offset = steps.middle_line()
    slope /= fine
    start = round(offset / slope)
    reach = max(2, min(8 * fine, 2 * WIDEST_SEARCH // len(totals)))
    candidates = start + np.arange(-reach, reach + 1, dtype=np.float64)
    most_left = INT32 - fine * max(abs(steps.low), abs(steps.high))  # so that integer + B fits
    candidates = candidates[np.abs(candidates) <= most_left]
    least, most = _multipliers(steps, totals, candidates, STEEPEST / fine)
    least = np.maximum(least, most * 1e-6)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(most > least, most / least, 0.0)
    for best in np.argsort(-room, kind="stable")[:TRIES]:
        if room[best] < LEAST_ROOM:
            break
        multiplier, candidate = np.float32(np.sqrt(least[best] * most[best])), int(candidates[best])
        if all(steps.are_met(codes) for codes in product_codes(multiplier, candidate, totals, zero, held)):
            return multiplier, candidate, 0
    offset = int(np.clip(start, -most_left, most_left))
    multiplier = _off_the_edge(steps, slope, offset, fine, zero)
    misplaced = steps.misplaced(lambda integers: product_codes(multiplier, offset, fine * integers, zero, held))
    return multiplier, offset, misplaced


def _off_the_edge(steps: Steps, slope: float, offset: int, fine: int, zero: int) -> np.float32:
    """A multiplier next to the slope with which all arithmetics give the same codes, if not those of float32."""
    levels = np.arange(steps.codes.min() - 1, steps.codes.max() + 2) - 0.5
    for nudge in sorted(range(-NUDGES, NUDGES + 1), key=abs):
        multiplier = np.float32(slope * (1 + nudge * NUDGE))
        crossings = np.rint((levels / multiplier - offset) / fine)[:, None] + [-1, 0, 1]
        totals = fine * np.clip(crossings, steps.low, steps.high).astype(np.int64)
        codes = known_codes(multiplier, offset, totals, zero)
        if all(np.array_equal(others, codes[0]) for others in codes):
            return multiplier
    return np.float32(slope)


def _multipliers(
    steps: Steps, totals: np.ndarray, offsets: np.ndarray, steepest: float
) -> tuple[np.ndarray, np.ndarray]:
    """For each offset B the bounds between which M makes M (x + B) reach its levels, or stay below them."""
    least, most = np.zeros(len(offsets)), np.full(len(offsets), steepest)
    corners = steps.corners
    for x, level, is_reached in zip(totals[corners], steps.levels[corners], steps.reached[corners], strict=True):
        value = x + offsets
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = level / value
        from_below = value > 0 if is_reached else value < 0
        from_above = value < 0 if is_reached else value > 0
        least = np.where(from_below, np.maximum(least, bound), least)
        most = np.where(from_above, np.minimum(most, bound), most)
        impossible = (value == 0) & ((level > 0) if is_reached else (level <= 0))
        most = np.where(impossible, -np.inf, most)
    return least, most
