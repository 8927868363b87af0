"""Predicted costs fitted to measured plans: the sum of several predictions that says best what a few plans cost.

    loss(plan)  ~  offset + sum_r weight_r x cost_r(plan),     weight_r >= 0

over plans whose loss was measured, by least squares. A sum of additive costs is additive, so the program stays what it
is. Costs are scaled by their spread over the plans first, so that weights compare, and a prediction that does not help
gets the weight 0.
"""

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from pdqat.allocation.budget import Budget
from pdqat.allocation.joint import Costs, plan_cost
from pdqat.allocation.offer import Offer, offer
from pdqat.allocation.search import SAME
from pdqat.batches import Batches
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize
from pdqat.precision import DROPPED, MIXED, BitPlan, Precision
from pdqat.sensitivity import BY_LOSS, SAMPLES, held_out
from pdqat.sensitivity.trials import loss_under
from pdqat.task import Problem

OTHERS = ("dual", "distance", "only-low", "gradient")
"""Rankings that are combined with the loss: those that take little time beside it."""


def fitted_weights(
    predictions: Mapping[str, Costs], plans: Sequence[Mapping[str, Precision]], losses: Sequence[float]
) -> dict[str, float]:
    """The weight of each prediction, for its costs as they are; all 0 if none follows the losses."""
    from scipy.optimize import nnls

    if len(plans) != len(losses) or len(plans) < 2:
        raise InputError(f"a fit needs at least 2 plans and a loss for each, not {len(plans)} and {len(losses)}")
    totals = np.array([[plan_cost(costs, plan) for costs in predictions.values()] for plan in plans])
    spreads = totals.std(0)
    spreads[spreads == 0] = np.inf  # a prediction that is the same for all says nothing
    columns = (totals - totals.mean(0)) / spreads
    weights, _ = nnls(columns, np.asarray(losses) - np.mean(losses))
    return dict(zip(predictions, map(float, weights / spreads), strict=True))


def combined(predictions: Mapping[str, Costs], weights: Mapping[str, float]) -> dict[str, dict[Precision, float]]:
    """The weighted sum of predictions of the same choices."""
    first = next(iter(predictions.values()))
    return {
        layer: {
            precision: sum(weights[name] * costs[layer][precision] for name, costs in predictions.items())
            for precision in of_layer
        }
        for layer, of_layer in first.items()
    }


def random_plan(offered: Offer, budget: Budget, draw: random.Random) -> dict[str, Precision]:
    """A plan that fits and in which no single layer can have more: layers are raised at random until none can be.

    Branches that may be dropped are so at first, each as often as its last layer would get any other precision; where
    nothing fits beside the others, all of them. Raises InputError if that does not fit either.
    """
    some = [last for last in offered.branches if draw.random() * len(offered.costs[last]) < 1]
    try:
        return _raised_plan(_without(offered, some), offered.sizes, budget, draw)
    except InputError:
        return _raised_plan(_without(offered, list(offered.branches)), offered.sizes, budget, draw)


def _without(offered: Offer, dropped: Sequence[str]) -> dict[str, dict[Precision, float]]:
    """The choices that are left with these branches dropped and the others kept."""
    gone = {layer for last in dropped for layer in (last, *offered.branches[last])}
    kept = {
        layer: {it: cost for it, cost in of_layer.items() if layer not in offered.branches or it != DROPPED}
        for layer, of_layer in offered.costs.items()
    }
    return kept | {layer: {DROPPED: 0.0} for layer in gone}


def _raised_plan(
    costs: Costs, sizes: Mapping[str, LayerSize], budget: Budget, draw: random.Random
) -> dict[str, Precision]:
    """From the smallest plan up."""
    limits = [amount.limit(sizes) for amount in budget.amounts]

    def uses(layer: str, precision: Precision) -> list[float]:
        return [amount.used_by(sizes[layer], precision) for amount in budget.amounts]

    def size(layer: str, precision: Precision) -> float:
        return max(used / limit for used, limit in zip(uses(layer, precision), limits, strict=True))

    plan = {layer: min(choices, key=lambda it: size(layer, it)) for layer, choices in costs.items()}
    used = [sum(column) for column in zip(*(uses(layer, it) for layer, it in plan.items()), strict=True)]
    if any(total > limit * (1 + SAME) for total, limit in zip(used, limits, strict=True)):
        raise InputError(f"no plan fits into {budget}")
    waiting = list(costs)
    while waiting:
        layer = draw.choice(waiting)
        before = uses(layer, plan[layer])
        fitting = [
            it
            for it in costs[layer]
            if size(layer, it) > size(layer, plan[layer])
            and all(
                total - old + new <= limit
                for total, old, new, limit in zip(used, before, uses(layer, it), limits, strict=True)
            )
        ]
        if not fitting:
            waiting.remove(layer)
            continue
        plan[layer] = draw.choice(fitting)
        used = [total - old + new for total, old, new in zip(used, before, uses(layer, plan[layer]), strict=True)]
    return plan


def calibrated(
    problem: Problem, batches: Batches, budgets: Sequence[Budget], count: int, *, samples: int = SAMPLES, **asked: Any
) -> Offer:
    """An offer whose costs are fitted to the losses of `count` random plans, drawn within the budgets in turn.

    Combined are the loss and those of OTHERS that the problem has.

    Args:
        problem: with one plan.
        batches: held-out samples to measure on.
        budgets: what the random plans may use.
        count: how many of them are measured.
        samples: how many of the samples to look at.
        asked: what else `offer` takes.
    """
    if not isinstance(count, int) or count < 2:
        raise InputError(f"a fit needs at least 2 measured plans, not {count!r}")
    first, draw = offer(problem, batches, by=BY_LOSS, samples=samples, **asked), random.Random(0)
    offers = {BY_LOSS: first}
    for name in OTHERS:
        with suppress(InputError):  # the arguments are good, so it is the problem that has no such ranking
            offers[name] = offer(problem, batches, by=name, samples=samples, **asked)
    # A ranking may have no score for a layer, which then keeps its precision in that offer.
    alike = {name: it.costs for name, it in offers.items() if _choices(it) == _choices(first)}
    plans = [random_plan(first, budgets[number % len(budgets)], draw) for number in range(count)]
    judges = held_out(problem, batches, samples)
    losses = [loss_under(problem, BitPlan(MIXED, first.plan(plan)), judges) for plan in plans]
    weights = fitted_weights(alike, plans, losses)
    if not any(weights.values()):
        raise InputError(f"no prediction follows the losses of {count} measured plans; measure more, or fit none")
    fitted = " and ".join(name for name, weight in weights.items() if weight > 0)
    return replace(first, by=f"{fitted}, fitted to {count} measured plans", prices={}, costs=combined(alike, weights))


def _choices(offered: Offer) -> dict[str, list[Precision]]:
    return {layer: list(row) for layer, row in offered.costs.items()}
