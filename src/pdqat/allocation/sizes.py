"""How large the layers of a network are: what budgets count."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pdqat.layers import Network
from pdqat.layers.layer import PrecisionLayer


@dataclass(frozen=True)
class LayerSize:
    """How large a layer is."""

    parameters: int
    """Of its weight."""
    operations: int
    """Multiply-accumulates for one input."""


@torch.no_grad()
def layer_sizes(net: Network, inputs: Tensor) -> dict[str, LayerSize]:
    """Of every layer that can be quantised; a network in evaluation mode stays as it is."""
    positions: dict[str, int] = {}

    def count(layer: PrecisionLayer, _: Any, output: Tensor) -> None:
        channels = output.shape[layer.channel_dim]
        positions[layer.name] = positions.get(layer.name, 0) + output.numel() // (len(output) * channels)

    hooks = [layer.register_forward_hook(count) for layer in net.layers.values()]
    net(inputs[:1])
    for hook in hooks:
        hook.remove()
    return {
        name: LayerSize(layer.weight.numel(), positions[name] * layer.weight.numel())
        for name, layer in net.layers.items()
    }
