"""Follow: the graph of a network, found symbolically where that shows all of it, else by torch.export."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from pdqat.batches import each_tensor
from pdqat.deployment.following.calls import input_names, inputs_of, of_two_or_more, outputs_of, tensors_of
from pdqat.deployment.following.program import program_of
from pdqat.deployment.following.symbolic import symbolic_graph
from pdqat.deployment.integer.names import INPUT, OUTPUT, SHAPE
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.layers.modes import evaluating
from pdqat.layers.trace import describe

NOISE = 1e-3
"""How far a graph's numbers may be from the model's, as a part of the largest: sums have another order."""


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
        try:
            wanted = outputs_of(net, each_tensor(inputs, Tensor.clone))
        except (TypeError, RuntimeError, IndexError) as error:
            raise InputError(f"the model can't process the example input ({describe(inputs)}): {error}") from error
        for find in (symbolic_graph, program_of):
            module = find(net, inputs, given)
            followed = None if module is None else _named(module, given)
            if followed is not None and _computes(followed, inputs, wanted):
                return followed
    raise InputError("can't follow the model's graph: what it shows computes other numbers than the model")


def _named(module: fx.GraphModule, given: Sequence[str]) -> Followed:
    read = [str(node.target) for node in module.graph.nodes if node.op == "placeholder"]
    return Followed(module, given, dict(zip([INPUT] if len(read) == 1 else read, read, strict=True)))


def _computes(followed: Followed, inputs: Any, wanted: Mapping[str, Tensor]) -> bool:
    """Whether a graph makes these outputs: a symbolic one does not show that a tensor with two names is changed."""
    made = _Shapes(followed.module).run(*(tensor.clone() for tensor in followed.read(inputs).values()))
    named = made if isinstance(made, dict) else {OUTPUT: made}
    if named.keys() != wanted.keys():
        return False
    return all(_is_close(named[name].double(), output.double()) for name, output in wanted.items())


def _is_close(made: Tensor, wanted: Tensor) -> bool:
    """Up to what the order of sums in float32 changes."""
    largest = float(wanted.nan_to_num().abs().max()) if wanted.numel() else 0.0
    return made.shape == wanted.shape and torch.allclose(made, wanted, rtol=0, atol=NOISE * largest, equal_nan=True)


class _Shapes(fx.Interpreter):
    """Writes down the shape of what every node makes."""

    def run_node(self, n: fx.Node) -> Any:
        """Called by torch.fx."""
        made = super().run_node(n)
        if isinstance(made, Tensor):
            n.meta[SHAPE] = tuple(made.shape)
        return made
