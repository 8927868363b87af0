"""The plan with the least predicted cost under a budget, as an integer program.

    minimise   sum_l sum_b cost[l, b] x[l, b]
    such that  sum_b x[l, b] = 1 for every layer l,   sum_l sum_b use[l, b] x[l, b] <= budget,   x in {0, 1}

solved exactly by HiGHS.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pdqat.allocation.budget import Budget
from pdqat.allocation.sizes import LayerSize
from pdqat.errors import InputError
from pdqat.precision import Precision

Costs = Mapping[str, Mapping[Precision, float]]
"""Per layer the predicted cost of every precision that it may have."""

BETTER = 1e-4
"""A plan is better if it costs less by this part."""
_SLACK = 1e-9
"""Sums that differ by less, relatively, are the same budget."""


@dataclass(frozen=True)
class Allocation:
    """A choice for every layer."""

    precisions: dict[str, Precision]
    cost: float
    used: Budget
    next_cost: float | None = None
    """What the next better plan would cost; None if there is no better one."""
    next_budget: Budget | None = None
    """The smallest budget under which that plan fits."""


def allocate(costs: Costs, sizes: Mapping[str, LayerSize], budget: Budget) -> Allocation:
    """The cheapest plan within the budget, and what the next better one would take.

    A layer with one precision in `costs` is pinned to it.
    """
    if not costs:
        raise InputError("there is no layer to choose a precision for")
    _check(costs, sizes)
    program = _Program(costs, sizes, budget)
    limit = budget.limit(sizes)
    if program.smallest > limit * (1 + _SLACK):
        smallest = budget.amount_of(program.smallest, sizes)
        raise InputError(f"no plan fits into {budget}: the smallest possible one takes {smallest.rounded_up()}")
    best = program.cheapest(limit * (1 + _SLACK))
    cost, used = program.cost(best), program.used(best)
    better = program.smallest_below(cost)
    return Allocation(
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
        self._of_layer = np.array([[layer == each for layer, _ in self._choices] for each in self._layers], dtype=float)

    @property
    def smallest(self) -> float:
        """The least that any plan uses."""
        return float(sum(self._uses[of == 1].min() for of in self._of_layer))

    def cheapest(self, limit: float) -> np.ndarray:
        """The least cost within the limit; of plans that cost the same, one that uses little."""
        found = self._solve(self._costs, self._uses, limit)
        assert found is not None
        within = self.cost(found)
        smaller = self._solve(self._uses, self._costs, within * (1 + _SLACK))
        return found if smaller is None or self.used(smaller) >= self.used(found) else smaller

    def smallest_below(self, cost: float) -> np.ndarray | None:
        """The least use of all plans that cost less."""
        if cost <= 0:
            return None
        return self._solve(self._uses, self._costs, cost * (1 - BETTER))

    def cost(self, chosen: np.ndarray) -> float:
        """Predicted, of a choice."""
        return float(self._costs[chosen].sum())

    def used(self, chosen: np.ndarray) -> float:
        """Of the budget, by a choice."""
        return float(self._uses[chosen].sum())

    def precisions(self, chosen: np.ndarray) -> dict[str, Precision]:
        """By layer."""
        return {layer: precision for (layer, precision), taken in zip(self._choices, chosen, strict=True) if taken}

    def _solve(self, objective: np.ndarray, limited: np.ndarray, limit: float) -> np.ndarray | None:
        """The least objective within a limit.

        HiGHS stops at an absolute gap of 1e-6 and takes rows for met within about as much. So both are scaled to 1: the
        row by its limit, the objective by the best value known, until that stays. A choice that is over either alone
        can't be part of the answer.
        """
        best, value = None, float(objective.max()) * len(self._layers)
        while True:
            possible = (limited <= limit * (1 + _SLACK)) & (objective <= value * (1 + _SLACK))
            found = self._solve_within(objective / (value or 1.0), limited / (limit or 1.0), possible)
            if found is None:
                return best
            new = float(objective[found].sum())
            if best is not None and new >= value * (1 - BETTER):
                return found if new < value else best
            best, value = found, new

    def _solve_within(self, objective: np.ndarray, limited: np.ndarray, possible: np.ndarray) -> np.ndarray | None:
        """A solution that is within the limit of 1 itself, not only within the solver's tolerance of it."""
        for limit in (1.0, 1 - 2e-6):
            found = self._solve_scaled(objective, limited, limit, possible)
            if found is not None and float(limited[found].sum()) <= 1 + _SLACK:
                return found
        return None

    def _solve_scaled(
        self, objective: np.ndarray, limited: np.ndarray, limit: float, possible: np.ndarray
    ) -> np.ndarray | None:
        try:
            from scipy.optimize import Bounds, LinearConstraint, milp
        except ImportError as error:
            raise InputError("choosing a plan needs scipy: pip install 'pdqat[plan]'") from error
        limits = [
            LinearConstraint(self._of_layer, 1, 1),
            LinearConstraint(np.where(possible, limited, 0.0)[None, :], -np.inf, limit),
        ]
        found = milp(
            np.where(possible, objective, 0.0),
            constraints=limits,
            integrality=np.ones(len(objective)),
            bounds=Bounds(0, possible.astype(float)),
            options={"mip_rel_gap": 0},
        )
        chosen: np.ndarray | None = None if found.x is None else found.x > 0.5
        return chosen
