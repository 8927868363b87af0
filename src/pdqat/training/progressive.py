"""Progressive bits: a training under more bits before the plan's own, in one run (`--progressive 8 4`)."""

import math
from itertools import pairwise

from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.precision import BitPlan, Precision
from pdqat.task import Problem, trains_low
from pdqat.training.settings import Settings


def plans_by_epoch(problem: Problem, settings: Settings) -> dict[int, BitPlan]:
    """The plan that is trained from each of some epochs on, the problem's own at last; empty if it is the only one.

    They share the epochs after the warm-up in equal parts. Raises InputError if the problem can't be trained so.
    """
    if not settings.progressive:
        return {}
    if not trains_low(problem):
        raise InputError("progressive bits are of low precision, and the problem trains full precision only")
    own = problem.net.only_plan("train with progressive bits")
    plans = [*(_raised(own, Precision.parse(bits)) for bits in settings.progressive), own]
    for bits, (plan, following) in zip(settings.progressive, pairwise(plans), strict=True):
        if not plan.low_layers:
            raise InputError(f"progressive bits {bits!r} leave every layer in full precision; warm_up does that")
        if plan.precisions == following.precisions or not _is_nowhere_below(plan, following):
            raise InputError(
                f"progressive bits go down to the plan's own: {bits!r} is not above what comes next, the plan "
                f"{following.name!r}"
            )
        if isinstance(problem, Lagrangian):
            problem.check_plan(plan)
    first, left = settings.warm_epochs, settings.epochs - settings.warm_epochs
    if left < len(plans):
        raise InputError(
            f"progressive bits and the plan's own are {len(plans)} precisions, one after the other: they need as many "
            f"epochs after the warm-up, not {left}"
        )
    return {first + left * index // len(plans): plan for index, plan in enumerate(plans)}


def _raised(own: BitPlan, to: Precision) -> BitPlan:
    """The plan with that precision in every layer that has fewer bits; what is in full precision stays so."""
    name = BitPlan.uniform(to, []).name if to.lowest_bits else own.name
    raised = {
        layer: its if its.is_dropped else Precision(_more(its.weight, to.weight), _more(its.activation, to.activation))
        for layer, its in own.precisions.items()
    }
    return BitPlan(name, raised)


def _more(own: int | None, other: int | None) -> int | None:
    return None if own is None or other is None else max(own, other)


def _is_nowhere_below(plan: BitPlan, other: BitPlan) -> bool:
    pairs = [(plan[layer], other[layer]) for layer in plan.precisions]
    sides = [(one.weight, two.weight) for one, two in pairs] + [(one.activation, two.activation) for one, two in pairs]
    return all((one or math.inf) >= (two or math.inf) for one, two in sides)
