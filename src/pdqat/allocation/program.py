"""The plan with the least predicted cost under a budget, as an integer program.

    minimise   sum_l sum_b cost[l, b] x[l, b]
    such that  sum_b x[l, b] = 1 for every layer l,   sum_l sum_b use[l, b] x[l, b] <= budget,   x in {0, 1}

solved exactly by HiGHS.
"""

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pdqat.allocation.budget import Budget
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize
from pdqat.precision import Precision

Costs = Mapping[str, Mapping[Precision, float]]
"""Per layer the predicted cost of every precision that it may have."""

BETTER = 1e-4
"""A plan is better if it costs less by this part."""
_SLACK = 1e-9
"""Sums that differ by less, relatively, are the same budget."""
_ROW = 1e4
"""What the limited sum is scaled to: HiGHS takes it for met within an absolute 1e-6, which is then below _SLACK."""


@dataclass(frozen=True)
class Solution:
    """The precision of every layer."""

    precisions: dict[str, Precision]
    cost: float
    used: Budget
    next_cost: float | None = None
    """What the next better plan would cost; None if there is no better one."""
    next_budget: Budget | None = None
    """The smallest budget under which that plan fits."""


def cheapest_plan(costs: Costs, sizes: Mapping[str, LayerSize], budget: Budget) -> Solution:
    """The cheapest plan within the budget, and what the next better one would take.

    A layer with one precision in `costs` is pinned to it; layers without costs don't count.
    """
    if not costs:
        raise InputError("there is no layer to choose a precision for")
    _check(costs, sizes)
    sizes = {layer: sizes[layer] for layer in costs}
    program = _Program(costs, sizes, budget)
    limit = budget.limit(sizes)
    if program.smallest > limit * (1 + _SLACK):
        smallest = budget.amount_of(program.smallest, sizes)
        raise InputError(f"no plan fits into {budget}: the smallest possible one takes {smallest.rounded_up()}")
    best = program.cheapest(limit * (1 + _SLACK))
    cost, used = program.cost(best), program.used(best)
    better = program.smallest_below(cost)
    return Solution(
        program.precisions(best),
        cost,
        budget.amount_of(used, sizes),
        None if better is None else program.cost(better),
        None if better is None else budget.amount_of(program.used(better), sizes),
    )


def _check(costs: Costs, sizes: Mapping[str, LayerSize]) -> None:
    for layer, choices in costs.items():
        if layer not in sizes:
            raise InputError(f"the size of layer {layer!r} is not known")
        if not choices:
            raise InputError(f"layer {layer!r} has no precision to choose from")
        for precision, cost in choices.items():
            if not (np.isfinite(cost) and cost >= 0):
                raise InputError(f"the cost of {layer!r} at {precision} bits is {cost}; it must be finite, 0 or more")


class _Program:
    def __init__(self, costs: Costs, sizes: Mapping[str, LayerSize], budget: Budget) -> None:
        self._choices = [(layer, precision) for layer in costs for precision in costs[layer]]
        self._costs = np.array([costs[layer][precision] for layer, precision in self._choices])
        self._uses = np.array([budget.used_by(sizes[layer], precision) for layer, precision in self._choices])
        self._layers = list(costs)
        self._of_layer = np.array([[layer == name for layer, _ in self._choices] for name in self._layers], dtype=float)

    @property
    def smallest(self) -> float:
        """The least that any plan uses."""
        return float(sum(self._uses[of == 1].min() for of in self._of_layer))

    def cheapest(self, limit: float) -> np.ndarray:
        """The least cost within the limit; of plans that cost the same, one that uses little."""
        cheapest = self._solve(self._costs, self._uses, limit)
        assert cheapest is not None
        smaller = self._solve(self._uses, self._costs, self.cost(cheapest) * (1 + _SLACK))
        return cheapest if smaller is None or self.used(smaller) >= self.used(cheapest) else smaller

    def smallest_below(self, cost: float) -> np.ndarray | None:
        """The least use of all plans that cost less."""
        if cost <= 0:
            return None
        return self._solve(self._uses, self._costs, cost * (1 - BETTER))

    def cost(self, taken: np.ndarray) -> float:
        """Predicted, of a choice."""
        return float(self._costs[taken].sum())

    def used(self, taken: np.ndarray) -> float:
        """Of the budget, by a choice."""
        return float(self._uses[taken].sum())

    def precisions(self, taken: np.ndarray) -> dict[str, Precision]:
        """By layer."""
        return {layer: precision for (layer, precision), is_taken in zip(self._choices, taken, strict=True) if is_taken}

    def _solve(self, objective: np.ndarray, limited: np.ndarray, limit: float) -> np.ndarray | None:
        """The least objective within a limit.

        HiGHS stops at an absolute gap of 1e-6, so the objective is scaled to 1 by the best value known, until that
        stays. A choice that is over either alone can't be part of the answer.
        """
        best, value = None, float(objective.max()) * len(self._layers)
        while True:
            possible = (limited <= limit * (1 + _SLACK)) & (objective <= value * (1 + _SLACK))
            taken = self._solve_scaled(objective / (value or 1.0), limited / (limit or 1.0), possible)
            if taken is None:
                return best
            new = float(objective[taken].sum())
            if best is not None and new >= value * (1 - BETTER):
                return taken if new < value else best
            best, value = taken, new

    def _solve_scaled(self, objective: np.ndarray, limited: np.ndarray, possible: np.ndarray) -> np.ndarray | None:
        """The least objective with a sum of at most 1.

        HiGHS takes 1e-6 for 0, so a choice can be over the limit once it is rounded. Then every choice that uses as
        much in each layer is ruled out, and the next one asked for.
        """
        try:
            from scipy.optimize import Bounds, LinearConstraint, milp
        except ImportError as error:
            raise InputError("choosing a plan needs scipy: pip install 'pdqat[plan]'") from error
        limits = [
            LinearConstraint(self._of_layer, 1, 1),
            LinearConstraint(_ROW * np.where(possible, limited, 0.0)[None, :], -np.inf, _ROW),
        ]
        while True:
            with _nothing_printed():
                solution = milp(
                    np.where(possible, objective, 0.0),
                    constraints=limits,
                    integrality=np.ones(len(objective)),
                    bounds=Bounds(0, possible.astype(float)),
                    options={"mip_rel_gap": 0},
                )
            if solution.x is None:
                return None
            taken: np.ndarray = solution.x > 0.5
            if float(limited[taken].sum()) <= 1 + _SLACK:
                return taken
            as_much = limited >= self._of_layer.T @ (self._of_layer @ (limited * taken))
            limits.append(LinearConstraint(as_much.astype(float)[None, :], -np.inf, len(self._layers) - 1))


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
