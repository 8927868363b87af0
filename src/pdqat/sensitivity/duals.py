"""The multipliers of the problem: what a layer's bound costs the objective (Theorem 1 of the paper)."""

from pdqat.batches import Batches
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.sensitivity.low_layers import plan_of
from pdqat.task import Problem


def multipliers(problem: Problem, batches: Batches) -> dict[str, float]:  # noqa: ARG001 - every ranking takes both
    """As they are now."""
    plan_of(problem)
    by_layer: dict[str, float] = {}
    if isinstance(problem, Lagrangian):
        named = problem.duals.named()
        by_layer = {bound.where: float(named[bound.name]) for bound in problem.bounds if bound.kind == "layer"}
    if not by_layer:
        raise InputError(
            "the problem has no layer multipliers: train with layer constraints (method pdqat-layers, level layer), or "
            "choose another ranking"
        )
    return by_layer
