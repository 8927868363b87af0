"""How far the output moves when one layer alone is in low precision, or alone is not."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from pdqat.batches import Batches, samples_in
from pdqat.layers.trace import call_model, evaluating
from pdqat.precision import FULL, BitPlan
from pdqat.quantizers import Quantizer
from pdqat.sensitivity.low_layers import (
    check_full_view,
    full_precision_copy,
    low_layers,
    output_distance_of,
    plan_of,
    quantizers_of,
    weight_in,
)
from pdqat.task import Problem


@torch.no_grad()
def only_low(problem: Problem, batches: Batches) -> dict[str, float]:
    """Distance of the full-precision output to that of the same network with this layer alone in low precision."""
    model, plan = full_precision_copy(problem), plan_of(problem)
    sums = dict.fromkeys(low_layers(problem), 0.0)
    samples = 0
    for inputs, target in batches:
        full: Tensor = call_model(model, inputs)
        distance = output_distance_of(problem, full, target)
        for name, layer in low_layers(problem).items():
            weight = weight_in(model, name)
            before = weight.clone()
            bits = plan[name].activation
            hook = _quantize_input(model.get_submodule(name), quantizers_of(problem, name).activation, bits)
            try:
                weight.copy_(layer.low_weight(plan))
                sums[name] += float(distance.between(full, call_model(model, inputs))) * samples_in(inputs)
            finally:
                weight.copy_(before)
                if hook is not None:
                    hook.remove()
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
            full: Tensor = call_model(net, inputs)
            distance = output_distance_of(problem, full, target)
            with net.under(plan):
                all_low = float(distance.between(full, call_model(net, inputs)))
            for name, other in plans.items():
                with net.state.under(other):
                    one_high = float(distance.between(full, call_model(net, inputs)))
                sums[name] += (all_low - one_high) * samples_in(inputs)
            samples += samples_in(inputs)
    return {name: total / samples for name, total in sums.items()}


def _quantize_input(layer: nn.Module, quantizer: Quantizer, bits: int | None) -> RemovableHandle | None:
    if bits is None:
        return None

    def rounded(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if args:
            return (quantizer.quantize(args[0], bits), *args[1:]), kwargs
        return args, {**kwargs, "input": quantizer.quantize(kwargs["input"], bits)}

    return layer.register_forward_pre_hook(rounded, with_kwargs=True)
