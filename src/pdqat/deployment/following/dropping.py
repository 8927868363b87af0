"""Dropping: a followed graph without the residual branches that a plan drops.

What a dropped layer makes is 0, and a sum of 0 and another term is that term. So the sum gives way to its other term,
and all that only led to the branch is left without a reader.
"""

from collections.abc import Collection
from dataclasses import replace

from torch import fx

from pdqat.deployment.following.follow import Followed
from pdqat.deployment.integer.graph import is_addition
from pdqat.deployment.integer.layers import layer_or_norm
from pdqat.errors import InputError
from pdqat.layers.layer import PrecisionLayer
from pdqat.precision import BitPlan


def without_dropped(followed: Followed, plan: BitPlan, branches: Collection[str]) -> Followed:
    """The graph of a network under a plan; `branches` are the layers in which residual branches end."""
    if not plan.dropped_layers:
        return followed
    module = fx.GraphModule(followed.module, followed.module.graph)
    for node in _calls_of(module, [layer for layer in plan.dropped_layers if layer in branches]):
        end = _sum_behind(node)
        if end is not None:
            addition, term = end
            (other,) = (it for it in addition.all_input_nodes if it is not term)
            addition.replace_all_uses_with(other)
    module.graph.eliminate_dead_code(is_impure_node=lambda node: node.op in ("placeholder", "output"))
    left = _calls_of(module, plan.dropped_layers)
    if left:
        raise InputError(f"can't export without {left[0].target}, which the plan drops: its graph has no sum behind it")
    module.delete_all_unused_submodules()
    module.graph.lint()
    module.recompile()
    return replace(followed, module=module)


def _calls_of(module: fx.GraphModule, layers: Collection[str]) -> list[fx.Node]:
    calls = [node for node in module.graph.nodes if node.op == "call_module"]
    found = ((node, layer_or_norm(module.get_submodule(str(node.target)))) for node in calls)
    return [node for node, layer in found if isinstance(layer, PrecisionLayer) and layer.name in layers]


def _sum_behind(node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """The sum behind the last layer of a branch, and the term that the branch is; on the way is what keeps 0 at 0."""
    while len(node.users) == 1:
        (reader,) = node.users
        if is_addition(reader):
            return (reader, node) if len(reader.all_input_nodes) == 2 else None
        node = reader
    return None
