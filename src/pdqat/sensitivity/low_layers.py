"""What rankings look at: the layers that a problem's plan quantises, and its full-precision view."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pdqat.classes import class_dims
from pdqat.constraints import ActivationConstraint, OutputConstraint, OutputDistance
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import Distance, Network
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.modes import evaluating
from pdqat.layers.norm import PrecisionNorm
from pdqat.precision import BitPlan
from pdqat.task import Problem, TaskProblem, check_problem, trains_low


def plan_of(problem: Problem) -> BitPlan:
    """The one plan whose layers are ranked; raises InputError if there are several, or only full precision."""
    check_problem(problem)
    if not trains_low(problem):
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
    if isinstance(problem, TaskProblem) or not problem.trains_full:
        raise InputError(
            "straight-through training alone, or held to a teacher, leaves the full-precision view untrained; rank the "
            "layers by loss, distance, random or first-and-last"
        )


@contextmanager
def full_view(problem: Problem, instead: Mapping[str, Callable[[PrecisionLayer, Tensor], Tensor]]) -> Iterator[Network]:
    """The network in full precision and evaluation mode, with functions of layer and input in place of some layers."""
    check_full_view(problem)

    def compute(module: PrecisionLayer | PrecisionNorm, given: Tensor) -> Tensor:
        if module.name in instead and isinstance(module, PrecisionLayer):
            return instead[module.name](module, given)
        return module.in_full(given)

    with evaluating(problem.net), problem.net.state.standing_in(compute):
        yield problem.net


def leaves(problem: Problem, layers: Iterable[str]) -> dict[str, Tensor]:
    """Per layer its full-precision weight, in rows, as a tensor of its own that can have a gradient."""
    known = problem.net.layers
    return {name: known[name].full_weight().detach().clone().requires_grad_() for name in layers}


def instead_of(weights: Mapping[str, Tensor]) -> dict[str, Callable[[PrecisionLayer, Tensor], Tensor]]:
    """Layers in full precision with these weights, for `full_view`."""
    return {name: partial(_with_weight, weight) for name, weight in weights.items()}


def _with_weight(weight: Tensor, layer: PrecisionLayer, given: Tensor) -> Tensor:
    return layer.operate(given, weight, layer.bias)


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


def output_distance_of(problem: Problem, output: Tensor, target: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """How far outputs are apart: as stated, but for the cross-entropy the divergence, which is 0 at equality.

    A problem without an output constraint does not say; there class labels, if the target is such, mean divergence.
    """
    constraints = problem.constraints if isinstance(problem, Lagrangian) else ()
    stated = next((it for it in constraints if isinstance(it, OutputConstraint)), None)
    if stated is None:
        dims = class_dims(output.shape, target)
        return partial(OutputDistance.KL.between, class_dim=dims[0]) if dims else OutputDistance.SQUARED.between
    stated = stated.for_target(output.shape, target)
    if stated.distance is not None and not OutputDistance(stated.distance).compares_classes:
        return OutputDistance(stated.distance).between
    class_dim = stated.class_dim
    return partial(OutputDistance.KL.between, class_dim=1 if class_dim is None else class_dim)
