"""What all writers read off a network: its graph, the functions of single numbers in it, its quantisers' codes."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from pdqat.deployment.integer.operations import SUMMAND_ZERO, Clip
from pdqat.errors import InputError
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.norm import PrecisionNorm
from pdqat.quantizers import DoReFaActivation, Quantizer

WITHOUT_EFFECT = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
"""In evaluation."""
DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d)


class _Tracer(fx.Tracer):
    """Keeps layers and norms in one piece."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, PrecisionLayer | PrecisionNorm) or super().is_leaf_module(m, module_qualified_name)


def traced(model: nn.Module) -> fx.Graph:
    """The model's graph, with layers and norms as calls of modules, and its one input."""
    try:
        graph = _Tracer().trace(model)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"can't follow the model's graph: {reason}") from error
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for node in inputs:
        if not node.users:
            graph.erase_node(node)
    read = [str(node.target) for node in inputs if node.users]
    if len(read) > 1:
        raise InputError(f"a model with several inputs can't be exported: it also reads {read[1]}")
    return graph


def is_without_effect(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether a call gives back what it is given, in evaluation."""
    if node.op == "call_module":
        return isinstance(modules.get(str(node.target)), WITHOUT_EFFECT)
    if node.op == "call_function" and node.target in DROPOUTS:
        return not node.kwargs.get("training", node.args[2] if len(node.args) > 2 else True)
    return node.op == "call_method" and node.target == "contiguous"


def function_of_numbers(node: fx.Node, modules: Mapping[str, nn.Module]) -> Clip | None:
    """ReLU and clips, as modules and as functions."""
    module = modules.get(str(node.target)) if node.op == "call_module" else None
    if node.op == "call_module" and not isinstance(module, nn.ReLU | nn.Hardtanh):
        return None
    if getattr(module, "inplace", False) or str(node.target) in ("relu_", "clamp_"):
        _check_only_user(node)
    if isinstance(module, nn.ReLU) or node.target in (torch.relu, F.relu, "relu", "relu_"):
        return Clip(0.0, None)
    if isinstance(module, nn.Hardtanh):  # and ReLU6
        return Clip(module.min_val, module.max_val)
    if node.target in (torch.clamp, torch.clip, "clamp", "clip", "clamp_"):
        limits = dict(zip(("min", "max"), node.args[1:], strict=False)) | node.kwargs
        ends = [limits.get(name) for name in ("min", "max")]
        if all(end is None or isinstance(end, int | float) for end in ends):
            return Clip(*(None if end is None else float(end) for end in ends))  # type: ignore[arg-type]
    return None


def _check_only_user(node: fx.Node) -> None:
    if len(node.all_input_nodes[0].users) > 1:
        raise InputError(f"{node.target} changes its input in place, which others read too: it can't be exported")


def is_addition(node: fx.Node) -> bool:
    """Of two terms, in any of torch's forms."""
    plain = len(node.args) == 2 and not node.kwargs and node.op != "call_module"
    return plain and node.target in (operator.add, operator.iadd, torch.add, "add", "add_")


@dataclass
class Codes:
    """What a quantiser's codes are."""

    low: int
    high: int
    factor: float
    step: float
    value: float
    """Of code 1."""
    is_summand: bool
    has_zero: bool
    of: Callable[[Tensor], Tensor] = field(repr=False)

    @property
    def above_lowest(self) -> Tensor:
        """All but the lowest."""
        return torch.arange(self.low + 1, self.high + 1)

    @property
    def zero(self) -> int:
        """The zero point that they are stored with."""
        return SUMMAND_ZERO if self.is_summand else 0


def codes_of(quantizer: Quantizer, bits: int, name: str, is_summand: bool = False) -> Codes:
    """The codes of what layer `name` reads or makes."""
    ends = quantizer.codes(torch.tensor([-1e30, 0.0, 1e30]), bits)
    low, middle, high = (int(code) for code in ends.integers)
    if bool(ends.offset.any()):
        raise InputError(f"layer {name} can't be exported: the codes that it reads have an offset")
    value = float(ends.scale)
    by_levels = isinstance(quantizer, DoReFaActivation)
    factor, step = (float(high), 1.0) if by_levels else (1.0, value)
    return Codes(
        low, high, factor, step, value, is_summand, middle == 0, lambda values: quantizer.codes(values, bits).integers
    )


def check_padding(name: str, layer: Any) -> None:
    """Zeros are the only padding that a file can have."""
    if getattr(layer, "padding_mode", "zeros") != "zeros":
        raise InputError(f"layer {name} can't be exported: its padding mode is {layer.padding_mode!r}, not zeros")


def convolution(name: str, layer: Any) -> dict[str, Any]:
    """Stride, padding, dilation and groups in numbers; empty for a linear layer."""
    if layer.weight.dim() == 2:
        return {}
    padding = padding_of(name, layer)
    return {"stride": layer.stride, "padding": padding, "dilation": layer.dilation, "groups": layer.groups}


def padding_of(name: str, layer: Any) -> tuple[int, ...]:
    """In numbers."""
    if layer.padding == "valid":
        return (0,) * len(layer.kernel_size)
    if layer.padding == "same":
        if any(size % 2 == 0 for size in layer.kernel_size):
            raise InputError(f"layer {name} can't be exported: padding 'same' with an even kernel is uneven")
        return tuple(d * (size - 1) // 2 for d, size in zip(layer.dilation, layer.kernel_size, strict=True))
    return tuple(layer.padding)
