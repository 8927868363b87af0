"""The whole trade-off: plans from the smallest budget to the largest, with predicted cost and measured score.

The score is that of the problem's weights under the plan, without any training for it; training usually reaches more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pdqat.allocation.budget import Amount, Budget, Unit, plan_uses
from pdqat.allocation.measure import measure_under
from pdqat.allocation.offer import Offer
from pdqat.allocation.program import Solution
from pdqat.allocation.proposals import choose, measuring
from pdqat.batches import Batches, check_repeatable
from pdqat.metric import Metric
from pdqat.precision import DROPPED, MIXED, BitPlan
from pdqat.task import Problem
from pdqat.terminal import Tell, not_told

POINTS = 9


@dataclass(frozen=True)
class Point:
    """One plan of the curve."""

    solution: Solution
    average_bits: float
    kilobytes: float
    metric: Metric
    score: float
    """Of the low-precision view, by the metric."""


def frontier(
    problem: Problem, offered: Offer, training: Batches, batches: Batches, tell: Tell = not_told
) -> list[Point]:
    """The plans that are chosen at budgets in even ratios from the smallest to the largest, each once."""
    for name, loader in (("training", training), ("batches", batches)):
        check_repeatable(loader, name)  # every plan of the curve is measured on them
    solutions: dict[float, Solution] = {}
    measure = measuring(problem, batches)
    for done, amount in enumerate(_amounts(offered)):
        tell(done, POINTS)
        chosen = choose(offered, Budget.of(Unit.BITS, amount), measure)
        offered, solution = chosen.offer, chosen.solution
        if not offered.leaves_nothing_low(solution.precisions):
            solutions.setdefault(_number(solution.used), solution)
    in_order = (solutions[used] for used in sorted(solutions))
    return [_point(problem, offered, solution, training, batches) for solution in in_order]


def _amounts(offered: Offer) -> Sequence[float]:
    """From the smallest plan that drops nothing, or half of that where branches may be dropped, to the largest."""
    unit = Amount(Unit.BITS, 1.0)
    uses = [
        [unit.used_by(offered.sizes[layer], precision) for precision in allowed if precision != DROPPED] or [0.0]
        for layer, allowed in offered.costs.items()
    ]
    least, most = (unit.of_sum(sum(map(pick, uses)), offered.sizes).number for pick in (min, max))
    if offered.branches:
        dropped = dict.fromkeys([it for last, feeding in offered.branches.items() for it in (last, *feeding)], 0.0)
        kept = (dropped.get(layer, min(of_layer)) for layer, of_layer in zip(offered.costs, uses, strict=True))
        least = max(least / 2, unit.of_sum(sum(kept), offered.sizes).number)
    return [least * (most / least) ** (step / (POINTS - 1)) for step in range(POINTS)]


def _point(problem: Problem, offered: Offer, solution: Solution, training: Batches, batches: Batches) -> Point:
    size = plan_uses(Unit.BYTES, solution.precisions, offered.sizes)
    plan = BitPlan(MIXED, offered.plan(solution.precisions))
    measured = measure_under(problem, plan, training, batches)
    return Point(solution, _number(solution.used), size / 1000, measured.metric, measured.scores[MIXED])


def _number(used: Budget) -> float:
    """Of its one unit."""
    (amount,) = used.amounts
    return amount.number
