"""Follow: the graph of a network, found symbolically where that shows all of it, else by torch.export."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from pdqat.deployment.following.calls import input_names, inputs_of, of_two_or_more, tensors_of
from pdqat.deployment.following.program import program_of
from pdqat.deployment.following.symbolic import symbolic_graph
from pdqat.deployment.integer.names import INPUT, SHAPE
from pdqat.layers import Network
from pdqat.layers.trace import evaluating


@dataclass(frozen=True)
class Followed:
    """A network's graph: layers and norms are calls of their modules, everything else functions of tensors.

    Its output node holds one node, or a dictionary of them by name, of which one is `output`.
    """

    module: fx.GraphModule
    """Its layers and norms are the network's own."""
    reads: Mapping[str, int]
    """Its inputs, by the names that a file gives them: each with its place among the tensors that the model takes."""

    def read(self, inputs: Any) -> dict[str, Tensor]:
        """Of a batch's inputs those that are read, by name."""
        tensors = tensors_of(inputs)
        return {name: tensors[place] for name, place in self.reads.items()}


@torch.no_grad()
def follow(net: Network, example: Any) -> Followed:
    """The graph of a network in evaluation mode; a forward that can't be followed is an InputError.

    example     inputs as the model takes them: all sizes but the number of samples are those of the example
    """
    inputs = of_two_or_more(inputs_of(net, example))
    given, tensors = input_names(net, inputs), tensors_of(inputs)
    with evaluating(net), net.under(None):
        module = symbolic_graph(net.model, given) or program_of(net, inputs, given)
        placeholders = [str(node.target) for node in module.graph.nodes if node.op == "placeholder"]
        places = [given.index(name) for name in placeholders]
        _Shapes(module).run(*(tensors[place] for place in places))
    names = [INPUT] if len(placeholders) == 1 else placeholders
    return Followed(module, dict(zip(names, places, strict=True)))


class _Shapes(fx.Interpreter):
    """Writes down the shape of what every node makes."""

    def run_node(self, n: fx.Node) -> Any:
        """Called by torch.fx."""
        made = super().run_node(n)
        if isinstance(made, Tensor):
            n.meta[SHAPE] = tuple(made.shape)
        return made
