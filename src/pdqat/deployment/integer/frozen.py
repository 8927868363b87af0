"""What freezing makes of a network, and how its operations belong to the network's layers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, fx

from pdqat.deployment.integer.assembly import Folded


@dataclass(frozen=True)
class LayerCodes:
    """Codes of a network's layers by name, a tensor for every call."""

    read: dict[str, list[Tensor]] = field(default_factory=dict)
    """By layers that are quantised."""
    added: dict[str, list[Tensor]] = field(default_factory=dict)
    """By layers and norms whose outputs are summands."""

    def rows(self, index: Tensor) -> "LayerCodes":
        """Of some samples."""
        return LayerCodes(
            *(
                {name: [tensor[index] for tensor in calls] for name, calls in per_name.items()}
                for per_name in (self.read, self.added)
            )
        )


@dataclass(frozen=True)
class Frozen:
    """A network as integer operations, with the evidence."""

    module: fx.GraphModule
    folded: list[Folded]
    real_layers: list[str]
    """Layers that compute in real numbers."""
    reads: list[tuple[str, str]]
    """Layers that read codes, in the order of their calls, each with the operation that makes them."""
    adds: list[tuple[str, str]]
    """The same for layers and norms whose outputs are added in whole numbers: with the operation that rounds them."""

    def by_layer(self, of_operations: Mapping[str, Tensor]) -> LayerCodes:
        """What is known of each operation, call by call of the layers that it belongs to."""
        result = LayerCodes()
        for per_name, calls in ((result.read, self.reads), (result.added, self.adds)):
            for name, operation in calls:
                per_name.setdefault(name, []).append(of_operations[operation])
        return result

    def most_off(self) -> LayerCodes:
        """Per channel, how far what operations round can be from what float32 makes of the same integers, in codes."""
        operations = {name: self.module.get_submodule(name) for _, name in (*self.reads, *self.adds)}
        none = torch.zeros(1)
        return self.by_layer({name: getattr(module, "most_off", none) for name, module in operations.items()})
