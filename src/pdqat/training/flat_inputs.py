"""Layers that read one value only: all of their activations are outside of the quantiser's range, on one side."""

from typing import Any

import torch
from torch import Tensor

from pdqat.layers import Network
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.modes import evaluating
from pdqat.precision import BitPlan


@torch.no_grad()
def flat_inputs(net: Network) -> list[str]:
    """The layers whose low-precision inputs are all the same number, under some plan, for the network's example.

    Such a layer passes nothing on of what comes before it.
    """
    flat: dict[str, bool] = {}
    for plan in net.plans.values():
        _look(net, plan, flat)
    return [name for name, is_flat in flat.items() if is_flat]


def _look(net: Network, plan: BitPlan, flat: dict[str, bool]) -> None:
    def look(layer: PrecisionLayer, given: tuple[Any, ...]) -> None:
        precision = plan[layer.name]
        if not precision.activation or not given or not isinstance(given[0], Tensor) or given[0].numel() < 2:
            return
        view = layer.views[plan.name]
        assert isinstance(view, LayerQuantizers)
        low = view.low_input(given[0], precision)
        is_flat = bool(low.min() == low.max()) and bool(given[0].min() != given[0].max())
        flat[layer.name] = flat.get(layer.name, True) and is_flat

    hooks = [net.layers[name].register_forward_pre_hook(look) for name in plan.precisions if name in net.layers]
    try:
        with evaluating(net), net.under(plan):
            net.call(net.example)
    finally:
        for hook in hooks:
            hook.remove()
