"""How far the output moves when one layer alone is in low precision, or alone is not."""

import torch
from torch import Tensor

from pdqat.batches import Batches, samples_in
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.modes import evaluating
from pdqat.precision import FULL, BitPlan
from pdqat.sensitivity.low_layers import (
    check_full_view,
    full_view,
    low_layers,
    output_distance_of,
    plan_of,
    quantizers_of,
)
from pdqat.task import Problem


@torch.no_grad()
def only_low(problem: Problem, batches: Batches) -> dict[str, float]:
    """Distance of the full-precision output to that of the same network with this layer alone in low precision."""
    plan = plan_of(problem)

    def in_low(layer: PrecisionLayer, given: Tensor) -> Tensor:
        read = quantizers_of(problem, layer.name).low_input(given, plan[layer.name])
        return layer.operate(read, layer.low_weight(plan), layer.bias)

    sums = dict.fromkeys(low_layers(problem), 0.0)
    samples = 0
    for inputs, target in batches:
        with full_view(problem, {}) as net:
            full = net.call(inputs)
        distance = output_distance_of(problem, full, target)
        for name in sums:
            with full_view(problem, {name: in_low}) as net:
                sums[name] += float(distance(full, net.call(inputs))) * samples_in(inputs)
        samples += samples_in(inputs)
    return {name: total / samples for name, total in sums.items()}


@torch.no_grad()
def only_high(problem: Problem, batches: Batches) -> dict[str, float]:
    """By how much the distance to the full-precision output falls when this layer alone is in full precision."""
    check_full_view(problem)
    net, plan = problem.net, plan_of(problem)
    plans = {name: BitPlan(plan.name, {**plan.precisions, name: FULL}) for name in low_layers(problem)}
    sums = dict.fromkeys(plans, 0.0)
    samples = 0
    with evaluating(net):
        for inputs, target in batches:
            full = net.call(inputs)
            distance = output_distance_of(problem, full, target)
            with net.under(plan):
                all_low = float(distance(full, net.call(inputs)))
            for name, other in plans.items():
                with net.state.under(other):
                    one_high = float(distance(full, net.call(inputs)))
                sums[name] += (all_low - one_high) * samples_in(inputs)
            samples += samples_in(inputs)
    return {name: total / samples for name, total in sums.items()}
