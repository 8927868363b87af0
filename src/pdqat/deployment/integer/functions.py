"""Graphs in functions: what a called function is named, and plain modules of torch as the functions that they call."""

from typing import Any

from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from pdqat.deployment.integer.names import OWN_NAME
from pdqat.errors import InputError

KEPT = (nn.ReLU, nn.Hardtanh, nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
"""Plain modules that other parts know as modules."""
NORMS = (_BatchNorm, _InstanceNorm)
"""They ask for their input's dimensions, which can't be followed."""
ALIASES = {
    "iadd": "add",
    "isub": "sub",
    "imul": "mul",
    "itruediv": "div",
    "truediv": "div",
    "true_divide": "div",
    "divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "invert": "bitwise_not",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "numpy_T": "T",
    "unsafe_view": "view",
    "unsafe_split": "split",
}
"""Other names of the same functions."""
OTHER_ORDER = ("batch_norm", "instance_norm")
"""In torch.nn.functional their arguments have another order."""
TRANSPOSED = ("T", "mT")
"""Attributes of tensors that are tensors."""
IN_PLACE_OPERATORS = {"iadd", "isub", "imul", "itruediv"}


OF_SHAPES = {
    *("size", "sym_size", "dim", "numel", "sym_numel", "getattr", "full", "zeros", "ones", "empty", "arange"),
    *("zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"),
}
"""What these make hangs on sizes and constants only: it is stored, and repeated where it follows the batch."""


def raw_name(node: fx.Node) -> str:
    """Of a function or method that is called, without its overload."""
    if node.op == "call_method":
        return str(node.target)
    packet = getattr(node.target, "overloadpacket", None)  # of torch.ops
    return str(getattr(packet or node.target, "__name__", ""))


def function_name(node: fx.Node) -> str:
    """One name for all forms of a function: of torch, of its operators, methods, in place or not."""
    name = raw_name(node).strip("_")
    if name == "getattr" and node.args[1] in TRANSPOSED:
        name = str(node.args[1])
    if name in OTHER_ORDER and getattr(node.target, "__module__", "") == "torch.nn.functional":
        return f"functional_{name}"
    return ALIASES.get(name, name)


def check_in_place(node: fx.Node) -> None:
    """What is changed in place must not be read by others afterwards: a file has no such changes."""
    name = raw_name(node)
    changes = (name.endswith("_") and not name.startswith("__")) or name in IN_PLACE_OPERATORS
    changes = (changes and name not in ("and_", "or_", "not_")) or node.kwargs.get("inplace") is True
    if not changes or not node.args or not isinstance(node.args[0], fx.Node):
        return
    order = {other: position for position, other in enumerate(node.graph.nodes)}
    if any(order[user] > order[node] for user in node.args[0].users):
        raise InputError(f"{node.name} changes its input in place, which others read too: it can't be exported")


class _Inside(fx.Tracer):
    """Follows every module."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return False


class _OfOne(nn.Module):
    """A module with one input, and its defaults for all others."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any) -> Any:
        return self.module(x)


def is_plain(module: Any) -> bool:
    """Whether a module is torch's own, and known by the functions that it calls."""
    return type(module).__module__.startswith("torch.nn.modules.") and not isinstance(module, KEPT + NORMS)


def in_functions(module: fx.GraphModule) -> fx.GraphModule:
    """The same graph with plain modules of torch replaced by the functions that they call."""
    modules = dict(module.named_modules())
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in module.graph.nodes:
        if node.op == "call_module" and is_plain(modules[str(node.target)]):
            copies[node] = _copied_inside(graph, node, modules[str(node.target)], copies)
        else:
            copies[node] = graph.node_copy(node, lambda source: copies[source])
    return fx.GraphModule(module, graph)


def _copied_inside(graph: fx.Graph, node: fx.Node, module: nn.Module, copies: dict[fx.Node, fx.Node]) -> fx.Node:
    own_name = node.meta.get(OWN_NAME, str(node.target))
    given = [*node.args, *node.kwargs.values()]
    try:
        inside = _Inside().trace(_OfOne(module) if len(given) == 1 else module)
    except Exception as error:  # whatever a forward raises on what stands for a tensor
        raise InputError(f"{own_name}: {type(module).__name__} can't be followed into its functions") from error
    copied: dict[fx.Node, Any] = {}
    for inner in inside.nodes:
        if inner.op == "placeholder":
            source = given.pop(0) if given else inner.args[0]  # else its default
            copied[inner] = copies[source] if isinstance(source, fx.Node) else source
            continue
        if inner.op == "output":
            result = fx.node.map_arg(inner.args[0], lambda source: copied[source])
            assert isinstance(result, fx.Node)
            return result
        copied[inner] = graph.node_copy(inner, lambda source: copied[source])
        copied[inner].meta[OWN_NAME] = own_name
        if inner.op == "get_attr":
            copied[inner].target = f"{node.target}.{str(inner.target).removeprefix('module.')}"
    raise AssertionError("a graph has an output")


def reached(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that an input's numbers reach, not only its size: all others are stored."""
    nodes: set[fx.Node] = set()
    for node in graph.nodes:
        of_sizes = node.op in ("call_function", "call_method") and function_name(node) in OF_SHAPES
        computed = not of_sizes and any(source in nodes for source in node.all_input_nodes)
        if node.op in ("placeholder", "call_module") or computed:
            nodes.add(node)
    return nodes
