"""Costs by measured losses: the additive costs that fit them best.

    loss(plan)  ~  sum_l cost_l(b_l),   by least squares over all plans whose loss was measured

At first these are the plan to start from, and that plan with one layer at a time at another precision: so many losses
fit exactly, and a cost is what the loss rises by when that layer alone changes. A plan in which many layers change says
how far the sum is off, and each of its costs takes a part of the difference.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from pdqat.allocation.joint import Branches, Costs, counted
from pdqat.errors import InputError
from pdqat.precision import DROPPED, Precision


@dataclass(frozen=True)
class Trial:
    """A plan whose loss was measured."""

    changed: Mapping[str, Precision]
    """What it has that the plan to start from has not."""
    loss: float

    @property
    def key(self) -> frozenset[tuple[str, Precision]]:
        """The same for the same plan."""
        return frozenset(self.changed.items())


def fitted(
    choices: Mapping[str, Iterable[Precision]], branches: Branches, start: Mapping[str, Precision], trials: list[Trial]
) -> dict[str, dict[Precision, float]]:
    """Costs of 0 or more of these choices; an option that no trial has costs nothing."""
    for trial in trials:
        if not math.isfinite(trial.loss):
            changed = ", ".join(f"{layer} at {it} bits" for layer, it in trial.changed.items()) or "the plan as it is"
            raise InputError(f"with {changed} the loss is {trial.loss}; it must be finite to compare plans")
    rows = [counted({**start, **trial.changed}, choices, branches) for trial in trials]
    columns = {option: number for number, option in enumerate(dict.fromkeys(it for row in rows for it in row.items()))}
    has = np.zeros((len(rows), len(columns)))
    for number, row in enumerate(rows):
        has[number, [columns[option] for option in row.items()]] = 1
    found = np.linalg.lstsq(has, np.array([trial.loss for trial in trials]), rcond=None)[0]
    costs = {
        layer: {it: float(found[columns[layer, it]]) if (layer, it) in columns else 0.0 for it in of_layer}
        for layer, of_layer in choices.items()
    }
    return _above_least(costs, branches)


def _above_least(costs: Costs, branches: Branches) -> dict[str, dict[Precision, float]]:
    """The same costs but for one number, which all plans cost less, and none of them below 0.

    A layer in a dropped branch doesn't count, so what it costs less, dropping the branch has to cost less too.
    """
    less: dict[str, float] = {}
    above = {}
    for layer in sorted(costs, key=lambda it: len(branches[it]) if it in branches else -1):  # the innermost first
        row = dict(costs[layer])
        if layer in branches:
            row[DROPPED] -= sum(less[it] for it in branches[layer])
        less[layer] = min(row.values())
        above[layer] = {precision: cost - less[layer] for precision, cost in row.items()}
    return {layer: above[layer] for layer in costs}
