"""The layer distance alone: how far a layer's low-precision output is from its full-precision one."""

from pdqat.batches import Batches
from pdqat.sensitivity.low_layers import low_layers, plan_of
from pdqat.sensitivity.probe import candidate_distances
from pdqat.task import Problem


def layer_distance(problem: Problem, batches: Batches) -> dict[str, float]:
    """At the precisions of the problem's plan."""
    plan = plan_of(problem)
    precisions = dict.fromkeys(plan[name] for name in low_layers(problem))
    distances = candidate_distances(problem, batches, list(precisions))
    return {name: distances[name][plan[name]] for name in low_layers(problem)}
