"""Symbolic tracing: a forward without control flow, whose modules and functions are kept as they are called."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx, nn

from pdqat.deployment.following.vocabulary import is_written
from pdqat.deployment.integer.graph import WITHOUT_EFFECT, changes_in_place, function_of_numbers, is_addition
from pdqat.layers import Network
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.own_forward import OwnForward


class _Tracer(fx.Tracer):
    """Keeps layers and norms in one piece."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, PrecisionLayer | PrecisionNorm) or super().is_leaf_module(m, module_qualified_name)


def symbolic_graph(net: Network, _: Any, given: Sequence[str]) -> fx.GraphModule | None:
    """The graph of a network's model that is given some of its inputs; None if torch can't tell what it does."""
    model, modules = net.model, dict(net.model.named_modules())
    if any(isinstance(module, OwnForward) for module in modules.values()):
        return None
    try:
        graph = _Tracer().trace(model)
    except Exception:  # whatever a model's code makes of values that are not there
        return None
    for node in [node for node in graph.nodes if node.op == "placeholder" and not node.users]:
        graph.erase_node(node)
    read = {str(node.target) for node in graph.nodes if node.op == "placeholder"}
    if not isinstance(graph.output_node().args[0], fx.Node) or not read <= set(given):
        return None
    if not all(_can_stay(node, modules) for node in graph.nodes):
        return None
    module = fx.GraphModule(model, graph)
    return module if is_written(module) else None


def _can_stay(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    if node.op == "call_module":
        first, *inside = modules[str(node.target)].modules()
        if isinstance(first, PrecisionLayer | PrecisionNorm):
            return len(node.args) + len(node.kwargs) == 1
        if any(isinstance(part, PrecisionLayer | PrecisionNorm) for part in inside):
            return False
    return not changes_in_place(node, modules) or _is_its_own(node.all_input_nodes[0], modules)


def _is_its_own(source: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether nobody but its one reader sees the memory of what a node makes."""
    if source.op == "call_module":
        is_new = not isinstance(modules[str(source.target)], (*WITHOUT_EFFECT, nn.Flatten, nn.Unflatten))
    else:
        is_new = is_addition(source) or function_of_numbers(source, modules) is not None
    return is_new and len(source.users) == 1
