"""How large the layers of a network are: what budgets count."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pdqat.batches import first_rows
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.network import Network
from pdqat.layers.trace import call_model, evaluating


@dataclass(frozen=True)
class LayerSize:
    """How large a layer is."""

    parameters: int
    """Of its weight."""
    operations: int
    """Multiply-accumulates for one input."""


@torch.no_grad()
def layer_sizes(net: Network) -> dict[str, LayerSize]:
    """Of every layer that can be quantised, for one sample of the example that the network was prepared with."""
    positions: dict[str, int] = {}

    def count(layer: PrecisionLayer, _: Any, output: Tensor) -> None:
        positions[layer.name] = positions.get(layer.name, 0) + output.numel() // output.shape[layer.channel_dim]

    hooks = [layer.register_forward_hook(count) for layer in net.layers.values()]
    try:
        with evaluating(net):
            call_model(net, first_rows(net.example, 1))
    finally:
        for hook in hooks:
            hook.remove()
    return {
        name: LayerSize(layer.weight.numel(), positions[name] * layer.weight.numel())
        for name, layer in net.layers.items()
    }
