"""One option of every group with the least sum within limits: a multiple-choice knapsack, solved exactly.

    minimise   max_j objectives[j] . x     such that     limited[k] . x <= 1 for every k,   one option of each group

The linear relaxation prices the limits, which gives a bound that no choice is below. Choices near that bound are listed
(`search`), in a gap that is widened until one of them fits; it is the best. Where too many are near, which takes many
options that are worth the same, HiGHS solves the integer program over the options that can be part of the answer.
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

from pdqat.allocation.search import MOST, SAME, Relaxation, TooManyError, within_gap
from pdqat.errors import InputError

BETTER = 1e-4
"""A choice is better if its objective is less by this part."""
_ROW = 1e4
"""What limited sums are scaled to: HiGHS takes them for met within an absolute 1e-6, which is then below SAME."""
_MARGIN = 1e-6
"""Within so much of the best objective HiGHS stops."""
_FIRST = 1 / 8
"""So many options a group, on average, the first gap lets in beyond one."""


@dataclass(frozen=True)
class Solver:
    """Choices of one option from every group.

    Args:
        groups: a row for every group, 1 where an option belongs to it and 0 elsewhere.
        most_listed: so many choices may be near the bound before HiGHS is asked.
    """

    groups: np.ndarray
    most_listed: int = MOST

    def least(self, objectives: np.ndarray, limited: np.ndarray, known: np.ndarray | None = None) -> np.ndarray | None:
        """Which options make the largest of the objectives least, each limited sum being at most 1; None if none fits.

        An option that alone is beyond a limit can't be part of the answer. A choice that is `known` to fit saves
        looking further than it. The relaxation is solved twice, since it is exact for objectives around 1 only.
        """
        scale = float(objectives.max()) * len(self.groups) or 1.0
        if known is not None:
            scale = float(objectives[:, known].sum(1).max()) or 1.0
        possible = _all_at_most(limited, 1.0)
        rough = _Program(objectives / scale, limited, self.groups).relaxed(possible)
        if rough is None:
            return None
        program = _Program(objectives / (scale * (rough.bound if rough.bound > 0 else 1.0)), limited, self.groups)
        relaxation = program.relaxed(possible)
        return None if relaxation is None else self._nearest(program, relaxation, known)

    def _nearest(self, program: "_Program", relaxation: Relaxation, known: np.ndarray | None) -> np.ndarray | None:
        """The best choice, by the list of all that are near the bound."""
        reduced = np.sort(relaxation.reduced[np.isfinite(relaxation.reduced)])
        first = reduced[min(len(reduced) - 1, math.ceil((1 + _FIRST) * len(self.groups)))]
        widest = program.widest_gap(relaxation) if known is None else program.value(known) - relaxation.bound
        gap = min(max(float(first), SAME), widest)
        rows = (program.objectives, program.limited)
        while True:
            try:
                found = within_gap(rows, self.groups, relaxation, gap, self.most_listed)
            except TooManyError:
                return self._solved(program, relaxation, known)
            if found is not None or gap >= widest:
                return known if found is None else found
            gap = min(2 * gap, widest)

    def _solved(self, program: "_Program", relaxation: Relaxation, known: np.ndarray | None) -> np.ndarray | None:
        """The best choice by HiGHS, over options of small reduced cost first: what it finds says which others count."""

        def not_worse(choice: np.ndarray) -> np.ndarray:
            """Options that can be part of a choice which is as good."""
            value = program.value(choice)
            return relaxation.bound + relaxation.reduced <= value + _MARGIN * max(1.0, value)

        possible = np.isfinite(relaxation.reduced)
        few = min(math.ceil(2 * len(self.groups)), int(possible.sum()))
        looked_at = relaxation.reduced <= np.sort(relaxation.reduced)[few - 1] if known is None else not_worse(known)
        while True:
            taken = program.solved(looked_at)
            needed = possible if taken is None else not_worse(taken)
            if not (needed & ~looked_at).any():
                return taken
            looked_at = looked_at | needed


class _Program:
    """Variables are the options and, of several objectives, the largest."""

    def __init__(self, objectives: np.ndarray, limited: np.ndarray, groups: np.ndarray) -> None:
        self.objectives, self.limited, self._groups = objectives, limited, groups
        self._has_largest = len(objectives) > 1
        self._beyond: list[np.ndarray] = []
        """Rows of options that may not all be chosen: HiGHS takes 1e-6 for 0, and they are over a limit by less."""

    def value(self, choice: np.ndarray) -> float:
        """The largest objective of a choice."""
        return float(self.objectives[:, choice].sum(1).max())

    def widest_gap(self, relaxation: Relaxation) -> float:
        """No choice is further from the bound."""
        most = np.where(self._groups > 0, self.objectives.max(0), 0.0).max(1).sum()
        return float(most) - relaxation.bound

    def relaxed(self, possible: np.ndarray) -> Relaxation | None:
        """The bound of the linear relaxation, by its prices of the limits; None if nothing fits."""
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
            return None
        prices = np.maximum(-solution.ineqlin.marginals, 0.0)
        weights = prices[len(self.limited) :] if self._has_largest else np.ones(1)
        if not weights.any():  # nothing is used, so that no objective is the largest
            weights = np.ones(len(weights))
        of_limits = _ROW * prices[: len(self.limited)]
        combined = weights / weights.sum() @ self.objectives + of_limits @ self.limited
        return Relaxation.by(combined, of_limits, self._groups, possible)

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
            over = [row for row in self.limited if float(row[taken].sum()) > 1 + SAME]
            if not over:
                return taken
            self._beyond += [row >= self._groups.T @ (self._groups @ (row * taken)) for row in over]

    def _minimised(self, possible: np.ndarray) -> np.ndarray:
        if self._has_largest:
            return np.array([*np.zeros(len(possible)), 1.0])
        return np.where(possible, self.objectives[0], 0.0)

    def _rows(self, possible: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is limited from above, and by what."""
        rows = [_ROW * np.where(possible, row, 0.0) for row in self.limited]
        limits = [_ROW] * len(rows)
        rows += [row.astype(float) for row in self._beyond]
        limits += [len(self._groups) - 1.0] * len(self._beyond)
        below = self._widened(np.array(rows))
        if self._has_largest:
            of_largest = [[*np.where(possible, row, 0.0), -1.0] for row in self.objectives]
            below, limits = np.vstack([below, of_largest]), [*limits, *[0.0] * len(of_largest)]
        return below, np.array(limits)

    def _widened(self, rows: np.ndarray) -> np.ndarray:
        """With a column for the largest objective, which these rows don't speak of."""
        return np.hstack([rows, np.zeros((len(rows), 1))]) if self._has_largest else rows


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
