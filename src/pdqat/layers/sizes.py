"""How large the layers of a network are: what budgets count."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pdqat.batches import first_rows
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.modes import evaluating
from pdqat.layers.norm import PrecisionNorm

if TYPE_CHECKING:
    from pdqat.layers.network import Network


@dataclass(frozen=True)
class LayerSize:
    """How large a layer is."""

    parameters: int
    """Of its weight."""
    operations: int
    """Multiply-accumulates for one input."""


@torch.no_grad()
def layer_sizes(net: "Network", every: bool = False) -> dict[str, LayerSize]:
    """Of every layer that can be quantised, for one sample of the example that the network was prepared with.

    Args:
        net: a prepared network.
        every: also of the layers that no plan quantises.
    """
    layers = net.every_layer if every else net.layers
    operations = dict.fromkeys(layers, 0)

    def count(module: PrecisionLayer | PrecisionNorm, given: Tensor) -> Tensor:
        output = module.in_full(given)
        if module.name in operations and isinstance(module, PrecisionLayer):
            operations[module.name] += module.operations(given, output)
        return output

    with evaluating(net), net.state.standing_in(count):
        net.call(first_rows(net.example, 1))
        return {name: LayerSize(layer.weight.numel(), operations[name]) for name, layer in layers.items()}
