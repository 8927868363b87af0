"""Follow: the graph of a network, found symbolically where that shows all of it, else by torch.export."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from pdqat.deployment.following.calls import input_names, inputs_of, of_two_or_more, tensors_of
from pdqat.deployment.following.program import program_of
from pdqat.deployment.following.symbolic import symbolic_graph
from pdqat.deployment.integer.names import INPUT, SHAPE
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.layers.modes import evaluating


@dataclass(frozen=True)
class Followed:
    """A network's graph: layers and norms are calls of their modules, everything else functions of tensors.

    Its output node holds one node, or a dictionary of them by name, of which one is `output`.
    """

    module: fx.GraphModule
    """Its layers and norms are the network's own."""
    given: Sequence[str]
    """What the model calls the tensors that it is given."""
    reads: Mapping[str, str]
    """Those of them that the graph reads, by the names that a file gives them, in its order."""

    def read(self, inputs: Any) -> dict[str, Tensor]:
        """Of a batch's inputs those that are read, by the names that a file gives them."""
        named = inputs if isinstance(inputs, Mapping) else dict(zip(self.given, tensors_of(inputs), strict=False))
        missing = next((name for name in self.reads.values() if name not in named), None)
        if missing is not None:
            raise InputError(f"a batch has the inputs {', '.join(named)}; the file also reads {missing}")
        return {file_name: named[name] for file_name, name in self.reads.items()}


@torch.no_grad()
def follow(net: Network, example: Any) -> Followed:
    """The graph of a network in evaluation mode; a forward that can't be followed is an InputError.

    example     inputs as the model takes them: all sizes but the number of samples are those of the example
    """
    inputs = of_two_or_more(inputs_of(net, example))
    given = input_names(net, inputs)
    with evaluating(net), net.under(None):
        module = symbolic_graph(net.model, given) or program_of(net, inputs, given)
        read = [str(node.target) for node in module.graph.nodes if node.op == "placeholder"]
        names = [INPUT] if len(read) == 1 else read
        followed = Followed(module, given, dict(zip(names, read, strict=True)))
        _Shapes(module).run(*followed.read(inputs).values())
    return followed


class _Shapes(fx.Interpreter):
    """Writes down the shape of what every node makes."""

    def run_node(self, n: fx.Node) -> Any:
        """Called by torch.fx."""
        made = super().run_node(n)
        if isinstance(made, Tensor):
            n.meta[SHAPE] = tuple(made.shape)
        return made
