"""What freezing makes of a network, and how its operations belong to the network's layers."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor, fx

from pdqat.deployment.integer.assembly import Folded
from pdqat.deployment.integer.graph import output_names
from pdqat.deployment.integer.operations import (
    Clip,
    PerChannel,
    ProductSums,
    RealProduct,
    RequantizedProduct,
    ToCodes,
)
from pdqat.deployment.integer.sum_operations import PooledSums, RequantizedSum, SumsToCodes

Known = TypeVar("Known")


@dataclass(frozen=True)
class ByLayer(Generic[Known]):
    """What is known of a network's layers by name, for every call."""

    read: dict[str, list[Known]] = field(default_factory=dict)
    """Of what layers read that are quantised."""
    added: dict[str, list[Known]] = field(default_factory=dict)
    """Of what layers and norms make whose outputs are summands."""


LayerCodes = ByLayer[Tensor]
"""Codes."""


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
    biases_off: dict[str, PerChannel]
    """Of layers whose outputs are whole scores, how far their biases in files are from their own."""

    @property
    def in_integers(self) -> bool:
        """Whether all is whole numbers between the rounding of the input and the scores, and these are as well."""
        whole = set[fx.Node]()
        for node in self.module.graph.nodes:
            operation = self.module.get_submodule(node.target) if node.op == "call_module" else None
            keeps = isinstance(operation, Clip | PooledSums) or node.target is operator.add
            is_whole = (
                isinstance(operation, ToCodes | ProductSums | RequantizedProduct | RequantizedSum | SumsToCodes)
                or (isinstance(operation, RealProduct) and operation.scores is not None)
                or (keeps and whole.issuperset(node.all_input_nodes))
            )
            if is_whole:
                whole.add(node)
            elif node.op not in ("placeholder", "output"):
                return False
        return True

    @property
    def outputs(self) -> list[str]:
        """What a file calls its outputs."""
        return output_names(self.module.graph)

    def by_layer(self, of_operations: Mapping[str, Tensor]) -> LayerCodes:
        """Codes of operations, call by call of the layers that they belong to."""
        return LayerCodes(_by_call(self.reads, of_operations), _by_call(self.adds, of_operations))

    def most_off(self) -> ByLayer[PerChannel]:
        """Per channel, how far what operations round can be from what float32 makes of the same integers, in codes."""
        known = {}
        for _, name in (*self.reads, *self.adds):
            operation = self.module.get_submodule(name)
            known[name] = NOWHERE
            if isinstance(operation, RequantizedProduct | RequantizedSum | SumsToCodes):
                known[name] = PerChannel(operation.most_off, operation.channel_dim)
        return ByLayer(_by_call(self.reads, known), _by_call(self.adds, known))


NOWHERE = PerChannel(torch.zeros(1), 0)
"""What is rounded from real numbers is what float32 makes of them."""


def _by_call(calls: list[tuple[str, str]], of_operations: Mapping[str, Known]) -> dict[str, list[Known]]:
    result: dict[str, list[Known]] = {}
    for layer, operation in calls:
        result.setdefault(layer, []).append(of_operations[operation])
    return result
