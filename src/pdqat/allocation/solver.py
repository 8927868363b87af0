"""One option of every group with the least sum within limits: a multiple-choice knapsack, solved exactly by HiGHS.

    minimise   max_j objectives[j] . x     such that     limited[k] . x <= 1 for every k,   one option of each group

Most options are out of the question, and the linear relaxation says which. It has a value, which no choice of whole
options is below, and a reduced cost for every option, by which any choice with that option is above it. So the integer
program is solved over options of small reduced cost first. What it finds is a bound: an option whose reduced cost takes
it beyond that bound is part of no better choice. If all others were looked at, the answer is exact; if not, they are.
"""

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdqat.errors import InputError

SAME = 1e-9
"""Sums that differ by less, relatively, are the same."""
BETTER = 1e-4
"""A choice is better if its objective is less by this part."""
_ROW = 1e4
"""What limited sums are scaled to: HiGHS takes them for met within an absolute 1e-6, which is then below SAME."""
_MARGIN = 1e-6
"""How exact HiGHS' linear relaxation is, for objectives around 1."""
_FIRST = 1.25
"""So many options a group, on average, are looked at first."""
_FINEST = 8
"""Uses are whole numbers of bits, also where they are counted in bytes."""


@dataclass(frozen=True)
class Solver:
    """Choices of one option from every group.

    Args:
        groups: a row for every group, 1 where an option belongs to it and 0 elsewhere.
    """

    groups: np.ndarray

    def least(self, objectives: np.ndarray, limited: np.ndarray, known: np.ndarray | None = None) -> np.ndarray | None:
        """Which options make the largest of the objectives least, each limited sum being at most 1; None if none fits.

        HiGHS stops at an absolute gap of 1e-6, so objectives are scaled to 1 by the best value known, until that stays;
        or, better, to whole numbers, whose next best sum is 1 away. An option that alone is beyond a limit, or beyond
        the best value, can't be part of the answer. A choice that is `known` to fit saves looking for a first one.
        """
        whole = _whole_numbers(objectives)
        if whole is not None:
            return self._least_scaled(whole, limited, _all_at_most(limited, 1.0), known)
        best, value = known, float(objectives.max()) * len(self.groups)
        if known is not None:
            value = float(objectives[:, known].sum(1).max())
        while True:
            possible = _all_at_most(limited, 1.0) & _all_at_most(objectives, value)
            taken = self._least_scaled(objectives / (value or 1.0), limited, possible, best)
            if taken is None:
                return best
            new = float(objectives[:, taken].sum(1).max())
            if best is not None and new >= value * (1 - BETTER):
                return taken if new < value else best
            best, value = taken, new

    def _least_scaled(
        self, objectives: np.ndarray, limited: np.ndarray, possible: np.ndarray, known: np.ndarray | None
    ) -> np.ndarray | None:
        program = _Program(objectives, limited, self.groups)
        bound, reduced = program.relaxed(possible)
        if bound is None:
            return None

        def not_worse(choice: np.ndarray) -> np.ndarray:
            """Options that can be part of a choice which is as good."""
            value = float(objectives[:, choice].sum(1).max())
            return possible & (bound + reduced <= value + _MARGIN * max(1.0, value))

        few = min(math.ceil(_FIRST * len(self.groups)), len(reduced))
        looked_at = possible & (reduced <= np.sort(reduced)[few - 1]) if known is None else not_worse(known)
        while True:
            taken = program.solved(looked_at)
            needed = possible if taken is None else not_worse(taken)
            if not (needed & ~looked_at).any():
                return taken
            looked_at = looked_at | needed


class _Program:
    """Variables are the options and, of several objectives, the largest."""

    def __init__(self, objectives: np.ndarray, limited: np.ndarray, groups: np.ndarray) -> None:
        self._objectives, self._limited, self._groups = objectives, limited, groups
        self._has_largest = len(objectives) > 1
        self._beyond: list[np.ndarray] = []
        """Rows of options that may not all be chosen: HiGHS takes 1e-6 for 0, and they are over a limit by less."""

    def relaxed(self, possible: np.ndarray) -> tuple[float | None, np.ndarray]:
        """The value of the linear relaxation, None if nothing fits, and by how much each option would raise it."""
        from_above, limits = self._rows(possible)
        solution = _scipy().linprog(
            self._minimised(possible),
            A_ub=from_above,
            b_ub=limits,
            A_eq=self._widened(self._groups),
            b_eq=np.ones(len(self._groups)),
            bounds=[*((0, float(it)) for it in possible), *[(0, None)] * self._has_largest],
            method="highs",
        )
        if solution.x is None:
            return None, np.zeros(len(possible))
        return float(solution.fun), np.maximum(solution.lower.marginals[: len(possible)], 0.0)

    def solved(self, possible: np.ndarray) -> np.ndarray | None:
        """The best choice of these options.

        A choice can be over a limit once it is rounded. Then every choice that uses as much in each group is ruled out,
        and the next one asked for.
        """
        optimize = _scipy()
        while True:
            from_above, limits = self._rows(possible)
            with _nothing_printed():
                solution = optimize.milp(
                    self._minimised(possible),
                    constraints=[
                        optimize.LinearConstraint(self._widened(self._groups), 1, 1),
                        optimize.LinearConstraint(from_above, -np.inf, limits),
                    ],
                    integrality=[*np.ones(len(possible)), *[0] * self._has_largest],
                    bounds=optimize.Bounds(0, [*possible.astype(float), *[np.inf] * self._has_largest]),
                    options={"mip_rel_gap": 0},
                )
            if solution.x is None:
                return None
            taken: np.ndarray = solution.x[: len(possible)] > 0.5
            over = [row for row in self._limited if float(row[taken].sum()) > 1 + SAME]
            if not over:
                return taken
            self._beyond += [row >= self._groups.T @ (self._groups @ (row * taken)) for row in over]

    def _minimised(self, possible: np.ndarray) -> np.ndarray:
        if self._has_largest:
            return np.array([*np.zeros(len(possible)), 1.0])
        return np.where(possible, self._objectives[0], 0.0)

    def _rows(self, possible: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is limited from above, and by what."""
        rows = [_ROW * np.where(possible, row, 0.0) for row in self._limited]
        limits = [_ROW] * len(rows)
        rows += [row.astype(float) for row in self._beyond]
        limits += [len(self._groups) - 1.0] * len(self._beyond)
        below = self._widened(np.array(rows))
        if self._has_largest:
            of_largest = [[*np.where(possible, row, 0.0), -1.0] for row in self._objectives]
            below, limits = np.vstack([below, of_largest]), [*limits, *[0.0] * len(of_largest)]
        return below, np.array(limits)

    def _widened(self, rows: np.ndarray) -> np.ndarray:
        """With a column for the largest objective, which these rows don't speak of."""
        return np.hstack([rows, np.zeros((len(rows), 1))]) if self._has_largest else rows


def _whole_numbers(objectives: np.ndarray) -> np.ndarray | None:
    """One objective in the largest unit of which all are whole numbers; None if it has none, or if there are more."""
    finest = _FINEST * objectives
    if len(objectives) > 1 or (finest % 1).any() or not 0 < finest.max() < 2**53 / finest.size:
        return None
    unit: int = np.gcd.reduce(finest.astype(np.int64), axis=None)
    return finest / unit


def _all_at_most(rows: np.ndarray, limit: float) -> np.ndarray:
    """For every option, whether no row has more of it."""
    return np.asarray((rows <= limit * (1 + SAME)).all(0))


def _scipy() -> Any:
    try:
        import scipy.optimize
    except ImportError as error:
        raise InputError("choosing a plan needs scipy: pip install 'pdqat[plan]'") from error
    return scipy.optimize


@contextmanager
def _nothing_printed() -> Iterator[None]:
    """HiGHS prints lines of its own development that no option turns off, past sys.stdout."""
    try:
        kept = os.dup(1)
    except OSError:  # nobody listens
        yield
        return
    sys.stdout.flush()
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        if os.name == "posix":
            ctypes.CDLL(None).fflush(None)  # what C still holds back for a pipe
        os.dup2(kept, 1)
        os.close(kept)
