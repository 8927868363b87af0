"""Cleaning: a program's graph without what has no effect, and with constants in place of what never changes."""

from typing import Any

import torch
from torch import Tensor, fx

from pdqat.deployment.integer.functions import function_name, raw_name
from pdqat.deployment.integer.graph import is_without_effect

CHECKS = {
    *("_assert", "_assert_async", "_assert_scalar", "_assert_tensor_metadata"),
    *("sym_constrain_range", "sym_constrain_range_for_size"),
}
"""They make nothing."""
COPIES = {"alias", "clone", "contiguous", "detach", "lift_fresh", "lift_fresh_copy"}
"""They give back what they are given."""
CONVERSIONS = {"to", "to_copy", "type_as"}
VIEWS = {torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default}
"""They ask for memory in order, which is not kept where copies are left out."""


def is_left_out(node: fx.Node) -> bool:
    """Whether an operation of a program only checks something."""
    return node.op == "call_function" and raw_name(node) in CHECKS


def cleaned(module: fx.GraphModule) -> fx.GraphModule:
    """The module without copies, dropout and unused inputs; what depends on no input is computed once."""
    graph = module.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and _gives_back(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif node.target in VIEWS:
            node.target = torch.ops.aten.reshape.default
    graph.eliminate_dead_code(is_impure_node=lambda node: node.op in ("placeholder", "output"))
    _fold(module)
    _leave_out_nothing(module)
    for node in [node for node in graph.nodes if node.op == "placeholder" and not node.users]:
        graph.erase_node(node)
    for node in graph.nodes:
        node.meta.pop("val", None)
    graph.eliminate_dead_code(is_impure_node=lambda node: node.op in ("placeholder", "output"))
    module.delete_all_unused_submodules()
    graph.lint()
    module.recompile()
    return module


def _gives_back(node: fx.Node) -> bool:
    name, source = function_name(node), node.args[0] if node.args else None
    if name in COPIES or is_without_effect(node, {}):
        return True
    if name in CONVERSIONS and isinstance(source, fx.Node):
        before, after = source.meta.get("val"), node.meta.get("val")
        return isinstance(before, Tensor) and isinstance(after, Tensor) and before.dtype == after.dtype
    return False


def _leave_out_nothing(module: fx.GraphModule) -> None:
    """Concatenations without their empty parts, such as a cache that holds nothing yet."""
    for node in [node for node in module.graph.nodes if node.op == "call_function" and function_name(node) == "cat"]:
        parts: Any = node.args[0]
        kept = [part for part in parts if not _is_empty(module, part)]
        if len(kept) == 1:
            node.replace_all_uses_with(kept[0])
            module.graph.erase_node(node)
        elif kept:
            node.args = (kept, *node.args[1:])


def _is_empty(module: fx.GraphModule, node: fx.Node) -> bool:
    return node.op == "get_attr" and getattr(module, str(node.target)).numel() == 0


def _fold(module: fx.GraphModule) -> None:
    """Constants in place of operations on constants."""
    known: dict[fx.Node, Any] = {}
    graph = module.graph
    for node in list(graph.nodes):
        if node.op == "get_attr":
            known[node] = getattr(module, str(node.target))
        elif node.op == "call_function" and all(source in known for source in node.all_input_nodes):
            args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
            known[node] = node.target(*args, **kwargs)
    for number, node in enumerate(node for node in known if node.op != "get_attr" and isinstance(known[node], Tensor)):
        if any(user not in known for user in node.users):
            name = f"folded_{number}"
            module.register_buffer(name, known[node].detach())
            with graph.inserting_before(node):
                constant = graph.get_attr(name)
            node.replace_all_uses_with(constant, delete_user_cb=lambda user: user not in known)
