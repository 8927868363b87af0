"""The plan with the least predicted cost under a budget, as an integer program.

    minimise   sum_l sum_b cost[l, b] x[l, b]
    such that  sum_b x[l, b] = 1 for every layer l,   sum_l sum_b use_u[l, b] x[l, b] <= budget_u for every unit u

with x in {0, 1}, solved exactly. Layers of a branch that may be dropped choose together (`joint`). What a better plan
would take is the same program with the roles changed: the smallest part t of the budget, the same for all of its units,
under which a plan fits that costs less.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pdqat.allocation.budget import Budget
from pdqat.allocation.joint import Branches, Costs, option_groups
from pdqat.allocation.search import SAME
from pdqat.allocation.solver import BETTER, Solver
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize
from pdqat.precision import Precision


@dataclass(frozen=True)
class Solution:
    """The precision of every layer."""

    precisions: dict[str, Precision]
    cost: float
    used: Budget
    next_cost: float | None = None
    """What the next better plan would cost; None if there is no better one."""
    next_budget: Budget | None = None
    """What that plan takes. No plan that is better takes a smaller part of the budget."""


def cheapest_plan(
    costs: Costs, sizes: Mapping[str, LayerSize], budget: Budget, branches: Branches | None = None
) -> Solution:
    """The cheapest plan within the budget, and what the next better one would take.

    A layer with one precision in `costs` is pinned to it; layers without costs don't count. A layer in `branches` has
    0 bits among its precisions, and those that only feed it are then dropped with it.
    """
    if not costs:
        raise InputError("there is no layer to choose a precision for")
    _check(costs, sizes)
    sizes = {layer: sizes[layer] for layer in costs}
    program = _Program(costs, sizes, budget, branches or {})
    best = program.cheapest()
    if best is None:
        smallest = budget.used_by(program.precisions(program.smallest()), sizes)
        raise InputError(f"no plan fits into {budget}: the smallest possible one takes {smallest.rounded_up()}")
    cost = program.cost(best)
    better = program.smallest_below(cost * (1 - BETTER)) if cost > 0 else None
    return Solution(
        program.precisions(best),
        cost,
        budget.used_by(program.precisions(best), sizes),
        None if better is None else program.cost(better),
        None if better is None else budget.used_by(program.precisions(better), sizes),
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
    def __init__(self, costs: Costs, sizes: Mapping[str, LayerSize], budget: Budget, branches: Branches) -> None:
        groups = option_groups(costs, sizes, budget, branches)
        self._layers = list(costs)
        self._options = [option for group in groups for option in group]
        self._costs = np.array([option.cost for option in self._options])
        self._uses = np.array([option.uses for option in self._options]).T
        """By unit."""
        self._limits = np.array([[amount.limit(sizes)] for amount in budget.amounts])
        number = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        self._solver = Solver((number == np.arange(len(groups))[:, None]).astype(float))

    def cheapest(self) -> np.ndarray | None:
        """The least cost within the budget, None if nothing fits; of plans that cost the same, one that uses little."""
        cheapest = self._solver.least(self._costs[None, :], self._uses / (self._limits * (1 + SAME)))
        return None if cheapest is None else self.smallest_below(self.cost(cheapest), cheapest)

    def smallest_below(self, cost: float, known: np.ndarray | None = None) -> np.ndarray | None:
        """The smallest part of the budget that a plan takes which costs no more; None if there is none."""
        parts = self._uses if len(self._uses) == 1 else self._uses / self._limits
        limited = self._costs / (cost * (1 + SAME)) if cost > 0 else 2.0 * (self._costs > 0)
        return self._solver.least(parts, limited[None, :], known)

    def smallest(self) -> np.ndarray:
        """The smallest part of the budget that any plan takes."""
        taken = self.smallest_below(float("inf"))
        assert taken is not None
        return taken

    def cost(self, taken: np.ndarray) -> float:
        """Predicted, of a choice."""
        return float(self._costs[taken].sum())

    def precisions(self, taken: np.ndarray) -> dict[str, Precision]:
        """By layer."""
        chosen: dict[str, Precision] = {}
        for option, is_taken in zip(self._options, taken, strict=True):
            if is_taken:
                chosen.update(option.precisions)
        return {layer: chosen[layer] for layer in self._layers}
