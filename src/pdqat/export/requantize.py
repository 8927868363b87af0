"""Requantisation: per channel M and an integer B, so that round(M (fine x acc + B)) is what float32 makes of acc.

All that stands between an integer accumulator and the code that the next layer reads (scale, norm, clip, rounding) is a
function of one number that never falls. So it is known by its thresholds: T_j is the smallest integer with a code of at
least j. A line gives the same codes if it crosses j - 1/2 between T_j - 1 and T_j for every j:

    M (fine x T_j + B) >= j - 1/2 > M (fine x (T_j - 1) + B)

For a given integer B these are bounds on M. Of all B the one is taken that leaves M the widest interval, and M from its
middle, so that no rounding of a runtime's own arithmetic comes near a threshold.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

WIDEST_SEARCH = 1 << 18
"""Candidates for B times thresholds, of one channel."""
INT32 = 2**31 - 1
STEEPEST = 512.0
"""Codes that lie between two integers at most."""


@dataclass(frozen=True)
class Requantization:
    """Per channel: code = round(multiplier x (fine x integer + offset)), clipped to the codes."""

    multiplier: Tensor
    offset: Tensor
    exact: Tensor
    """Whether the codes are those of float32 for every integer within reach."""
    constant: Tensor
    """Whether there is one code for all of them: then it is the offset, and integers count nothing."""


def requantization(
    function: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, codes: Tensor, fine: int
) -> tuple[Requantization, Tensor]:
    """The line of a function from integers (channels, n) to codes that rises or falls, and the sign of its slope.

    Where it falls the line is that of -integer.
    """
    falls = function(low[:, None])[:, 0] > function(high[:, None])[:, 0]
    sign = torch.where(falls, -1, 1)
    low, high = torch.where(falls, -high, low), torch.where(falls, -low, high)
    found = thresholds(lambda integers: function(integers * sign[:, None]), low, high, codes)
    return fit(found, low, high, codes, fine), sign


def thresholds(function: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, codes: Tensor) -> Tensor:
    """Per channel and code j the smallest integer from `low` to `high` with function(integer) >= j, or high + 1.

    function    of integers (channels, n), to codes; never falls
    low, high   per channel, what can occur
    codes       all but the lowest, in rising order
    """
    first = low[:, None].expand(-1, len(codes)).clone()
    last = (high + 1)[:, None].expand(-1, len(codes)).clone()
    while bool((first < last).any()):
        middle = (first + last) // 2
        reached = function(torch.minimum(middle, high[:, None])) >= codes
        searching = first < last
        last = torch.where(searching & reached, middle, last)
        first = torch.where(searching & ~reached, middle + 1, first)
    return first


def fit(found: Tensor, low: Tensor, high: Tensor, codes: Tensor, fine: int) -> Requantization:
    """The line for each channel that has these thresholds, or the nearest one where no line has."""
    channels = [
        _fit_channel(row, int(low[index]), int(high[index]), codes.numpy().astype(np.float64), fine)
        for index, row in enumerate(found.numpy())
    ]
    multipliers, offsets, exact, constant = zip(*channels, strict=True)
    return Requantization(
        torch.tensor(multipliers, dtype=torch.float32),
        torch.tensor(offsets, dtype=torch.int32),
        torch.tensor(exact),
        torch.tensor(constant),
    )


def _fit_channel(at: np.ndarray, low: int, high: int, codes: np.ndarray, fine: int) -> tuple[float, int, bool, bool]:
    if not ((at > low) & (at <= high)).any():  # one code for everything within reach
        code = codes[at <= low].max(initial=codes[0] - 1)
        return 1.0, int(code), True, True
    half = codes - 0.5
    reached = fine * at[at <= high].astype(np.float64), half[at <= high]
    below = fine * (at[at > low] - 1).astype(np.float64), half[at > low]
    slope, offset = _middle_line(reached, below, steepest=STEEPEST / fine)
    start = round(offset / slope)
    reach = max(2, min(8 * fine, WIDEST_SEARCH // len(codes)))
    candidates = start + np.arange(-reach, reach + 1, dtype=np.float64)
    most_left = INT32 - fine * max(abs(low), abs(high))  # so that integer + B fits
    candidates = candidates[np.abs(candidates) <= most_left]
    if not len(candidates):
        return slope, int(np.clip(start, -most_left, most_left)), False, False
    least, most = _multipliers(reached, below, candidates, STEEPEST / fine)
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(most > least, most / np.maximum(least, most * 1e-6), 0.0)
    best = int(room.argmax())
    if room[best] < 1 + 4 * np.finfo(np.float32).eps:
        return slope, int(np.clip(start, -most_left, most_left)), False, False
    return float(np.sqrt(max(least[best], most[best] * 1e-6) * most[best])), int(candidates[best]), True, False


_Points = tuple[np.ndarray, np.ndarray]
"""Where the line is looked at, and the levels there."""


def _multipliers(
    reached: _Points, below: _Points, offsets: np.ndarray, steepest: float
) -> tuple[np.ndarray, np.ndarray]:
    """For each offset B the bounds between which M makes M (x + B) reach its levels, or stay below them."""
    least, most = np.zeros(len(offsets)), np.full(len(offsets), steepest)
    for points, is_reached in ((reached, True), (below, False)):
        for x, level in zip(*points, strict=True):
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


def _middle_line(reached: _Points, below: _Points, steepest: float) -> tuple[float, float]:
    """Slope and offset of the line that keeps the largest vertical distance to all levels.

    With slope u the offset is at least max(level - u x) over the points that reach theirs and at most min(level - u x)
    over those that stay below; the room between is concave in u, so its highest point is found by golden sections.
    """

    def ends(slope: float) -> tuple[float, float]:
        return float((reached[1] - slope * reached[0]).max()), float((below[1] - slope * below[0]).min())

    def room(slope: float) -> float:
        least, most = ends(slope)
        return most - least

    golden = (np.sqrt(5) - 1) / 2
    first, last = 0.0, steepest
    for _ in range(120):
        width = golden * (last - first)
        if room(last - width) < room(first + width):
            first = last - width
        else:
            last = first + width
    slope = (first + last) / 2
    least, most = ends(slope)
    return slope, (least + most) / 2
