"""Thresholds: all that a function from integers to codes is, if it never falls.

T_j is the smallest integer with a code of at least j. What never falls either and has a code of at least j at T_j and
of less at T_j - 1, for every j, is the same function: these integers are all that need be looked at.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

STEEPEST = 512.0
"""Codes that lie between two integers at most."""


def rising(
    function: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, codes: Tensor
) -> tuple[list["Steps"], Tensor]:
    """The steps of a function from integers (channels, n) to codes that rises or falls, and the sign of its slope.

    Where it falls the steps are those of -integer.
    """
    falls = function(low[:, None])[:, 0] > function(high[:, None])[:, 0]
    sign = torch.where(falls, -1, 1)
    low, high = torch.where(falls, -high, low), torch.where(falls, -low, high)
    first = thresholds(lambda integers: function(integers * sign[:, None]), low, high, codes)
    return [Steps.of(*channel, codes) for channel in zip(first, low.tolist(), high.tolist(), strict=True)], sign


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


@dataclass(frozen=True, eq=False)
class Steps:
    """The thresholds of one channel that lie within reach."""

    low: int
    high: int
    """The integers within reach."""
    constant: int | None
    """The one code of all of them, if there is one."""
    integers: np.ndarray
    """T_j and T_j - 1, where they are within reach."""
    codes: np.ndarray
    """The j of each."""
    reached: np.ndarray
    """Whether it is T_j, which has the code, or T_j - 1, which has a lower one."""
    thresholds: np.ndarray
    """All T_j, within reach or not."""
    every_code: np.ndarray
    """The j of each of them."""

    @classmethod
    def of(cls, first: Tensor, low: int, high: int, codes: Tensor) -> "Steps":
        """From all thresholds of a channel."""
        at, every = first.numpy(), codes.numpy()
        inside, past = at <= high, at > low
        constant = None if (inside & past).any() else int(every[~past].max(initial=every[0] - 1))
        reached = np.repeat([True, False], [inside.sum(), past.sum()])
        integers = np.concatenate([at[inside], at[past] - 1])
        right = np.concatenate([every[inside], every[past]])
        return cls(low, high, constant, integers, right, reached, at, every)

    @property
    def levels(self) -> np.ndarray:
        """What a line has to reach, or to stay below."""
        return self.codes - 0.5

    @cached_property
    def corners(self) -> np.ndarray:
        """Indices of the integers that decide whether a line meets all levels.

        A line lies above all points (integer, level) that it has to reach if it lies above the corners of their upper
        hull, and below all others if it lies below the corners of their lower hull.
        """
        indices = np.arange(len(self.integers))
        above, below = indices[self.reached], indices[~self.reached]
        return np.array([*self._hull(above, 1), *self._hull(below, -1)], dtype=np.int64)

    def _hull(self, indices: np.ndarray, side: int) -> list[int]:
        """The corners of the upper (side 1) or lower (side -1) hull of some points, by Andrew's monotone chain."""
        x, y = self.integers.tolist(), (2 * side * self.codes).tolist()  # whole numbers, so turns are exact
        hull: list[int] = []
        for point in indices.tolist():
            while len(hull) > 1:
                first, second = hull[-2:]
                run, rise = x[second] - x[first], y[second] - y[first]
                if run * (y[point] - y[first]) < rise * (x[point] - x[first]):
                    break
                hull.pop()
            hull.append(point)
        return hull

    def are_met(self, codes: np.ndarray) -> bool:
        """Whether these are codes of the integers that belong to the same function."""
        return bool(((codes >= self.codes) == self.reached).all())

    def misplaced(self, functions: Callable[[np.ndarray], Sequence[np.ndarray]]) -> int:
        """By how many integers, at most, the thresholds of other functions that never fall lie elsewhere.

        functions   from integers to the codes of each function
        """
        distance = 1
        while not self._are_near(functions, distance):
            distance *= 2
        return distance

    def _are_near(self, functions: Callable[[np.ndarray], Sequence[np.ndarray]], distance: int) -> bool:
        """Whether every code is reached that far behind its threshold, and not reached that far before it."""
        behind, before = self.thresholds + distance, self.thresholds - 1 - distance
        inside, past = behind <= self.high, before >= self.low
        reached = all((codes >= self.every_code[inside]).all() for codes in functions(behind[inside]))
        return reached and all((codes < self.every_code[past]).all() for codes in functions(before[past]))

    def middle_line(self) -> tuple[float, float]:
        """Slope and offset of the line that keeps the largest vertical distance to all levels.

        With slope u the offset is at least max(level - u x) over the integers that reach theirs and at most
        min(level - u x) over those that stay below; the room between is concave in u, so its highest point is found by
        golden sections.
        """
        golden = (np.sqrt(5) - 1) / 2
        first, last = 0.0, STEEPEST
        corners, reached = self.corners, self.reached[self.corners]
        levels, integers = self.levels[corners], self.integers[corners]
        above, below = ((levels[side], integers[side]) for side in (reached, ~reached))

        def room(slope: float) -> float:
            return float((below[0] - slope * below[1]).min() - (above[0] - slope * above[1]).max())

        for _ in range(120):
            width = golden * (last - first)
            if room(last - width) < room(first + width):
                first = last - width
            else:
                last = first + width
        slope = (first + last) / 2
        least, most = self.offsets(slope * self.integers)
        return slope, float(least + most) / 2

    def offsets(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least and the most that can be added to values (..., integers) for them to meet their levels."""
        short = self.levels - values
        return short[..., self.reached].max(-1), short[..., ~self.reached].min(-1)
