"""What rankings look at: the layers that a problem's plan quantises, and its full-precision view as a plain module."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from pdqat.constraints import ActivationConstraint, OutputConstraint, OutputDistance
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import Distance
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.metric import are_labels
from pdqat.precision import BitPlan
from pdqat.task import Problem, TaskProblem, check_problem


def plan_of(problem: Problem) -> BitPlan:
    """The one plan whose layers are ranked; raises InputError if there are several, or only full precision."""
    check_problem(problem)
    if isinstance(problem, TaskProblem) and not problem.low:
        raise InputError("the problem trains full precision only; its layers have no low precision to rank")
    return problem.net.only_plan("rank its layers")


def low_layers(problem: Problem) -> dict[str, PrecisionLayer]:
    """The layers that the plan quantises, as the model calls them."""
    low = set(plan_of(problem).low_layers)
    return {name: layer for name, layer in problem.net.layers.items() if name in low}


def quantizers_of(problem: Problem, layer: str) -> LayerQuantizers:
    """A layer's quantisers under the plan."""
    view = problem.net.layers[layer].views[plan_of(problem).name]
    assert isinstance(view, LayerQuantizers)
    return view


def check_full_view(problem: Problem) -> None:
    """Refuse what compares with full precision where that was not trained."""
    plan_of(problem)
    if isinstance(problem, TaskProblem):
        raise InputError(
            "straight-through training alone leaves the full-precision view untrained; rank the layers by distance, "
            "random or first-and-last"
        )


def full_precision_copy(problem: Problem) -> nn.Module:
    """A plain module that computes what the full-precision view does."""
    check_full_view(problem)
    return copy.deepcopy(problem.net).restore(bake=True).eval()


def weight_in(model: nn.Module, layer: str) -> Tensor:
    """A layer's weight in a plain module."""
    weight = model.get_submodule(layer).weight
    assert isinstance(weight, Tensor)
    return weight


@torch.no_grad()
def weight_errors(problem: Problem) -> dict[str, Tensor]:
    """Per layer quantize(w) - full(w); zero where the plan leaves the weights alone."""
    plan = plan_of(problem)
    return {name: layer.low_weight(plan) - layer.full_weight() for name, layer in low_layers(problem).items()}


def layer_distance_of(problem: Problem) -> Distance:
    """By which the problem compares layers; the relative one if it does not."""
    constraints = problem.constraints if isinstance(problem, Lagrangian) else ()
    return next(
        (Distance(it.distance) for it in constraints if isinstance(it, ActivationConstraint)), Distance.RELATIVE
    )


def output_distance_of(problem: Problem, output: Any, target: Any) -> OutputDistance:
    """How far outputs are apart: squared or by the divergence, which unlike the cross-entropy is 0 at equality.

    A problem without an output constraint does not say; there class labels, if the target is such, mean divergence.
    """
    constraints = problem.constraints if isinstance(problem, Lagrangian) else ()
    stated = next((it.distance for it in constraints if isinstance(it, OutputConstraint)), None)
    if stated is None:
        return OutputDistance.KL if are_labels(output, target) else OutputDistance.SQUARED
    return OutputDistance.SQUARED if stated is OutputDistance.SQUARED else OutputDistance.KL
