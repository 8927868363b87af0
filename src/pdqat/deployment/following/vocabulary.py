"""Vocabulary: the modules and functions that files can hold."""

from collections.abc import Mapping

from torch import fx, nn

from pdqat.deployment.integer.graph import function_name, function_of_numbers, is_without_effect
from pdqat.errors import InputError


def is_known(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether an ONNX file can hold an operation, as far as its name tells; without onnx all are taken for known."""
    if node.op in ("placeholder", "output", "get_attr"):
        return True
    try:
        from pdqat.deployment.formats.onnx_graph import GraphWriter
    except InputError:
        return True
    if is_without_effect(node, modules) or function_of_numbers(node, modules) is not None:
        return True
    if node.op == "call_module":
        return isinstance(modules[str(node.target)], tuple(GraphWriter.MODULES))
    return function_name(node) in {*GraphWriter.FUNCTIONS, "size", "getattr", "getitem"}
