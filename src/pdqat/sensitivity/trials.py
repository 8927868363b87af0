"""The task loss itself, one layer tried at other bits: all other layers stay as the plan has them.

No distance stands between a layer and the loss here, and no price is carried from one precision to another: each
candidate is measured. Statistics of batch norms are estimated anew for each, on the same samples. What is left to
assume is that the losses of several layers add up.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from pdqat.batches import Batches, samples_in
from pdqat.layers.modes import evaluating
from pdqat.layers.norm_statistics import STATISTICS_BATCHES, estimate_statistics
from pdqat.layers.transfer import with_plan
from pdqat.precision import FULL, BitPlan, Precision
from pdqat.sensitivity.low_layers import low_layers, plan_of
from pdqat.task import Problem
from pdqat.terminal import Tell, not_told


@torch.no_grad()
def loss_under(problem: Problem, plan: BitPlan, batches: Batches, statistics: Batches | None = None) -> float:
    """The mean task loss of the low-precision view under another plan, without training for it.

    Norms are estimated on `statistics`, or on the first of the same batches. With no layer in low precision it is the
    full-precision view.
    """
    net = problem.net
    view: AbstractContextManager[Any] = nullcontext()
    if BitPlan(plan.name, {**plan_of(problem).precisions, **plan.precisions}).low_layers:
        net = with_plan(net, plan)
        under = net.only_plan("measure its loss")
        estimate_statistics(net, under, batches if statistics is None else statistics, STATISTICS_BATCHES)
        view = net.under(under)
    total, samples = 0.0, 0
    with evaluating(net), view:
        for inputs, target in batches:
            total += float(problem.loss(net.call(inputs), target)) * samples_in(inputs)
            samples += samples_in(inputs)
    return total / samples


def candidate_losses(
    problem: Problem,
    batches: Batches,
    start: BitPlan,
    choices: Mapping[str, Sequence[Precision]],
    tell: Tell = not_told,
) -> tuple[float, dict[str, dict[Precision, float]]]:
    """The task loss under a plan, and per layer and precision when that layer alone has it instead."""
    as_it_is = loss_under(problem, start, batches)
    losses: dict[str, dict[Precision, float]] = {}
    for done, (layer, precisions) in enumerate(choices.items()):
        tell(done, len(choices))
        losses[layer] = {
            precision: as_it_is
            if precision == start[layer]
            else loss_under(problem, BitPlan(start.name, {**start.precisions, layer: precision}), batches)
            for precision in precisions
        }
    return as_it_is, losses


def loss_saved(problem: Problem, batches: Batches) -> dict[str, float]:
    """By how much the task loss of the low-precision view falls when this layer alone is in full precision."""
    plan = plan_of(problem)
    _, losses = candidate_losses(problem, batches, plan, {layer: [plan[layer], FULL] for layer in low_layers(problem)})
    return {layer: of_layer[plan[layer]] - of_layer[FULL] for layer, of_layer in losses.items()}
