"""The multipliers of the problem: what a layer's bound costs the objective (Theorem 1 of the paper).

A layer without a bound of its own has the multiplier of the smallest block around it that has one.
"""

from pdqat.batches import Batches
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.sensitivity.low_layers import plan_of
from pdqat.task import Problem


def multipliers(problem: Problem, batches: Batches) -> dict[str, float]:  # noqa: ARG001 - every ranking takes both
    """As they are now."""
    low = plan_of(problem).low_layers
    by_layer: dict[str, float] = {}
    if isinstance(problem, Lagrangian):
        named = problem.duals.named()
        by_layer = {bound.where: float(named[bound.name]) for bound in problem.bounds if bound.kind == "layer"}
        blocks = {bound.where: float(named[bound.name]) for bound in problem.bounds if bound.kind == "block"}
        for layer in low:
            around = [block for block in blocks if f"{layer}.".startswith(f"{block}.")]
            if layer not in by_layer and around:
                by_layer[layer] = blocks[max(around, key=len)]
    if not by_layer:
        raise InputError(
            "the problem has no layer multipliers: train with layer constraints (method pdqat-layers, level layer), or "
            "choose another ranking"
        )
    return by_layer
