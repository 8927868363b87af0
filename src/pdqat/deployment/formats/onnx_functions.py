"""The vocabulary: all functions of real numbers that a file can hold, by torch's names."""

from collections.abc import Callable
from typing import Any

from torch import fx

from pdqat.deployment.formats import (
    onnx_elementwise,
    onnx_lookups,
    onnx_masks,
    onnx_norms,
    onnx_pooling,
    onnx_products,
    onnx_shapes,
    onnx_sums,
)
from pdqat.deployment.formats.onnx_emitter import Emitter, Value
from pdqat.deployment.integer.functions import function_name, in_functions, reached


def dropout(file: Emitter, x: Value, p: float = 0.5, training: bool = True, inplace: bool = False) -> str:
    """Nothing, in evaluation."""
    if training:
        raise file.refuse("dropout in training")
    return str(x.name)


KNOWN: dict[str, Callable[..., Any]] = {
    **onnx_elementwise.FUNCTIONS,
    **onnx_masks.FUNCTIONS,
    **onnx_sums.FUNCTIONS,
    **onnx_norms.FUNCTIONS,
    **onnx_products.FUNCTIONS,
    **onnx_shapes.FUNCTIONS,
    **onnx_lookups.FUNCTIONS,
    **onnx_pooling.FUNCTIONS,
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"), dropout),
}
"""Each takes the file, then torch's arguments, and gives back the name of the tensor that it wrote, or several."""


def unknown_calls(module: fx.GraphModule) -> list[fx.Node]:
    """The calls of functions that can't be written, whatever their options are, also inside plain modules."""
    graph = in_functions(module).graph
    calls = [node for node in graph.nodes if node.op in ("call_function", "call_method")]
    calls = sorted(reached(graph) & set(calls), key=calls.index)
    return [node for node in calls if function_name(node) not in KNOWN]
