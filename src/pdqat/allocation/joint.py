"""Choices of several layers at once, where a residual branch may be dropped: its layers go together or not at all.

The layers of a branch have one choice among them: to be dropped, at the cost that the last of them has at 0 bits, or a
precision each, whose costs and uses add up. Of the latter only those matter of which no other is cheaper and smaller
in every unit. So a program with one choice of each group stays exact.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pdqat.allocation.budget import Budget
from pdqat.layers.sizes import LayerSize
from pdqat.precision import DROPPED, Precision

Costs = Mapping[str, Mapping[Precision, float]]
"""Per layer the predicted cost of every precision that it may have."""
Branches = Mapping[str, Sequence[str]]
"""By layer that may be dropped, the layers that only feed it."""


@dataclass(frozen=True)
class Option:
    """Precisions of the layers of a group."""

    precisions: Mapping[str, Precision]
    cost: float
    uses: tuple[float, ...]
    """By unit of the budget."""

    def beside(self, other: "Option") -> "Option":
        """Both."""
        uses = tuple(one + two for one, two in zip(self.uses, other.uses, strict=True))
        return Option({**self.precisions, **other.precisions}, self.cost + other.cost, uses)


def counted(precisions: Mapping[str, Precision], layers: Iterable[str], branches: Branches) -> dict[str, Precision]:
    """Of these layers those that a plan's cost counts: of a dropped branch only the last, of branches in it none."""
    dropped = [last for last in branches if precisions[last].is_dropped]
    inside = {layer for last in dropped for layer in branches[last]}
    return {layer: precisions[layer] for layer in layers if layer not in inside}


def plan_cost(costs: Costs, precisions: Mapping[str, Precision], branches: Branches) -> float:
    """Predicted, of a plan."""
    return sum(costs[layer][precision] for layer, precision in counted(precisions, costs, branches).items())


def option_groups(
    costs: Costs, sizes: Mapping[str, LayerSize], budget: Budget, branches: Branches
) -> list[list[Option]]:
    """By group of layers that choose together, what they may have."""
    last_of: dict[str, str] = {}
    for last in sorted(branches, key=lambda it: len(branches[it])):  # of branches in branches the innermost first
        for layer in branches[last]:
            last_of.setdefault(layer, last)
    feeding: dict[str, list[str]] = defaultdict(list)
    for layer, last in last_of.items():
        feeding[last].append(layer)

    def of(layer: str) -> list[Option]:
        options = [
            Option({layer: it}, cost, tuple(amount.used_by(sizes[layer], it) for amount in budget.amounts))
            for it, cost in costs[layer].items()
        ]
        if layer not in branches:
            return options
        kept = [option for option in options if option.precisions[layer] != DROPPED]
        for other in feeding[layer]:
            kept = undominated([one.beside(two) for one in kept for two in of(other)])
        nothing = (0.0,) * len(budget.amounts)
        without = dict.fromkeys([layer, *branches[layer]], DROPPED)
        return [*kept, Option(without, costs[layer][DROPPED], nothing)]

    return [of(layer) for layer in costs if layer not in last_of]


def undominated(options: Sequence[Option]) -> list[Option]:
    """Those of which no other is as cheap and as small; of equal ones the first."""
    if not options:
        return []
    rows = np.array([[option.cost, *option.uses] for option in options])
    kept: list[int] = []
    for index in np.lexsort(rows.T[::-1]):
        if not kept or not (rows[kept] <= rows[index]).all(1).any():
            kept.append(int(index))
    return [options[index] for index in sorted(kept)]
