"""Costs propose plans within a budget, and measuring decides.

    plan_k      the cheapest within the budget by costs_k                             (`program`)
    loss_k      its loss, measured
    costs_k+1   what fits the losses of single layers and of plan_1 ... plan_k best   (`fitted`)

until the cheapest plan is one that was measured, or MOST plans were. The proposed plan that has the least loss is
chosen, so it is never worse than the first, on the samples that it is measured on. The plan to start from, and that
with one layer changed, can have less: its weights were trained for its bits. It uses less of the budget too, and was no
better after a training for the new plan (docs/results/plans.md), so it is not among those that are chosen from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pdqat.allocation.budget import Budget
from pdqat.allocation.fitted import Trial
from pdqat.allocation.joint import plan_cost
from pdqat.allocation.offer import Offer
from pdqat.allocation.program import Solution, cheapest_plan
from pdqat.batches import Batches
from pdqat.precision import MIXED, BitPlan, Precision
from pdqat.sensitivity.trials import loss_under
from pdqat.task import Problem
from pdqat.terminal import Tell, not_told

MOST = 30
"""So many plans are proposed."""

Measure = Callable[[Mapping[str, Precision]], float]
"""The loss under a plan for all layers."""


@dataclass(frozen=True)
class Chosen:
    """A plan within a budget, and what was measured on the way to it."""

    solution: Solution
    """Its cost is the predicted one, by single layers; what is next is predicted by all that was measured."""
    offer: Offer
    """Knows the losses that were measured for it."""
    loss: float | None = None
    """Of the plan; None if plans are not measured."""
    proposed: tuple[Trial, ...] = ()
    """Plans in the order in which they were proposed."""


def measuring(problem: Problem, judges: Batches) -> Measure:
    """The loss of a problem's weights on held-out samples, without training, under the plans that it is asked for."""
    return lambda precisions: loss_under(problem, BitPlan(MIXED, precisions), judges)


def choose(offered: Offer, budget: Budget, measure: Measure | None = None, tell: Tell = not_told) -> Chosen:
    """The plan by the costs alone, or, of an offer by losses and with a way to measure more, by what was measured."""
    solution = _cheapest(offered, budget)
    if measure is None or not offered.alone or offered.leaves_nothing_low(solution.precisions):
        return Chosen(solution, offered)
    known = {trial.key: trial for trial in offered.proposed}
    fitting = {trial.key: trial for trial in offered.alone}
    proposed: list[Trial] = []
    while len(proposed) < MOST:
        changed = {layer: it for layer, it in solution.precisions.items() if it != offered.start[layer]}
        key = frozenset(changed.items())
        if key in fitting or offered.leaves_nothing_low(solution.precisions):
            break
        tell(len(proposed), MOST)
        known[key] = fitting[key] = known.get(key) or Trial(changed, measure(offered.plan(solution.precisions)))
        proposed.append(known[key])
        solution = _cheapest(offered.fitted([*fitting.values()]), budget)
    proposed = proposed or [fitting[key]]  # the first is a plan with one layer changed
    best = min(proposed, key=lambda it: it.loss)
    precisions = {layer: best.changed.get(layer, offered.start[layer]) for layer in offered.costs}
    used, cost = budget.used_by(precisions, offered.sizes), plan_cost(offered.costs, precisions, offered.branches)
    chosen = Solution(precisions, cost, used, None, solution.next_budget)
    return Chosen(chosen, replace(offered, proposed=list(known.values())), best.loss, tuple(proposed))


def _cheapest(offered: Offer, budget: Budget) -> Solution:
    return cheapest_plan(offered.costs, offered.sizes, budget, offered.branches)
