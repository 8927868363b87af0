"""What all writers read off a graph: its functions of single numbers, its additions, its quantisers' codes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn

from pdqat.deployment.integer.functions import IN_PLACE_OPERATORS, function_name, raw_name
from pdqat.deployment.integer.names import OUTPUT, SHAPE
from pdqat.deployment.integer.operations import Clip, shift_of
from pdqat.errors import InputError
from pdqat.quantizers import DoReFaActivation, DoReFaByteActivation, Quantizer

WITHOUT_EFFECT = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
"""In evaluation."""
ADAPTIVE = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "alpha_dropout")


def output_names(graph: fx.Graph) -> list[str]:
    """What a file of the graph calls its outputs."""
    made = graph.output_node().args[0]
    return list(made) if isinstance(made, dict) else [OUTPUT]


def changes_in_place(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether a call writes its result into what it is given."""
    if node.op == "call_module":
        return bool(getattr(modules[str(node.target)], "inplace", False))
    if node.op not in ("call_function", "call_method"):
        return False
    name = raw_name(node)
    in_place = name in IN_PLACE_OPERATORS or (name.endswith("_") and not name.endswith("__"))
    return in_place or bool(node.kwargs.get("inplace", False))


def is_without_effect(node: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether a call gives back what it is given, in evaluation."""
    if node.op == "call_module":
        return isinstance(modules.get(str(node.target)), WITHOUT_EFFECT)
    if node.op == "call_function" and function_name(node) in DROPOUTS:
        return not node.kwargs.get("training", node.args[2] if len(node.args) > 2 else True)
    return node.op == "call_method" and node.target == "contiguous"


def function_of_numbers(node: fx.Node, modules: Mapping[str, nn.Module]) -> Clip | None:
    """ReLU and clips, as modules and as functions."""
    if node.op == "call_module":
        module = modules.get(str(node.target))
        if isinstance(module, nn.Hardtanh):  # and ReLU6
            return Clip(module.min_val, module.max_val)
        return Clip(0.0, None) if isinstance(module, nn.ReLU) else None
    if node.op not in ("call_function", "call_method"):
        return None
    name = function_name(node)
    if name == "relu":
        return Clip(0.0, None)
    if name == "relu6":
        return Clip(0.0, 6.0)
    if name not in _LIMITS:
        return None
    given = dict(zip(_LIMITS[name], node.args[1:], strict=False)) | node.kwargs
    defaults = (-1.0, 1.0) if name == "hardtanh" else (None, None)
    ends = [given.get(end, given.get(f"{end}_val", usual)) for end, usual in zip(("min", "max"), defaults, strict=True)]
    if not all(end is None or isinstance(end, int | float) for end in ends):
        return None
    return Clip(*(None if end is None else float(end) for end in ends))  # type: ignore[arg-type]


_LIMITS = {
    "clamp": ("min", "max"),
    "clamp_min": ("min",),
    "clamp_max": ("max",),
    "hardtanh": ("min_val", "max_val"),
}
"""What functions call their limits."""


def is_addition(node: fx.Node) -> bool:
    """Of two terms, in any of torch's forms."""
    if node.op not in ("call_function", "call_method") or len(node.args) != 2 or node.kwargs:
        return False
    return function_name(node) == "add"


def global_mean(node: fx.Node, modules: Mapping[str, nn.Module]) -> tuple[bool, tuple[int, ...]] | None:
    """Whether a mean over the whole image keeps its dimensions, and their sizes; None for any other call."""
    source = node.args[0] if node.args else node.kwargs.get("input")
    shape = source.meta.get(SHAPE, ()) if isinstance(source, fx.Node) else ()
    sizes = tuple(shape[2:])
    if not sizes or node.op not in ("call_function", "call_method", "call_module"):
        return None
    if node.op == "call_module":
        module = modules[str(node.target)]
        keepdim, whole = True, isinstance(module, ADAPTIVE) and _is_one(module.output_size)
    elif function_name(node) == "mean":
        given = dict(zip(("dim", "keepdim"), node.args[1:], strict=False)) | node.kwargs
        dims = given.get("dim")
        dims = (dims,) if isinstance(dims, int) else dims
        keepdim = bool(given.get("keepdim", False))
        whole = isinstance(dims, tuple | list) and {int(dim) % len(shape) for dim in dims} == set(range(2, len(shape)))
    else:
        given = dict(zip(("output_size",), node.args[1:], strict=False)) | node.kwargs
        keepdim, whole = True, function_name(node).startswith("adaptive_avg_pool") and _is_one(given.get("output_size"))
    return (keepdim, sizes) if whole else None


def is_flattened(mean: fx.Node, modules: Mapping[str, nn.Module]) -> bool:
    """Whether all that reads a mean over the whole image takes it as one row a sample."""

    def flattens(user: fx.Node) -> bool:
        if user.op == "call_module":
            return isinstance(modules[str(user.target)], nn.Flatten)
        return user.op != "output" and function_name(user) in ("flatten", "reshape", "squeeze", "view")

    row = mean.meta[SHAPE][:2]
    return bool(mean.users) and all(flattens(user) and user.meta.get(SHAPE) == row for user in mean.users)


def _is_one(size: Any) -> bool:
    return size == 1 or (isinstance(size, tuple | list) and all(each == 1 for each in size))


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
    def shift(self) -> int:
        """What a runtime may add to them before it rounds."""
        return shift_of(self.low)


def codes_of(quantizer: Quantizer, bits: int, name: str, is_summand: bool = False) -> Codes:
    """The codes of what layer `name` reads or makes."""
    ends = quantizer.codes(torch.tensor([-1e30, 0.0, 1e30]), bits)
    low, middle, high = (int(code) for code in ends.integers)
    if bool(ends.offset.any()):
        raise InputError(f"layer {name} can't be exported: the codes that it reads have an offset")
    value = float(ends.scale)
    by_levels = isinstance(quantizer, DoReFaActivation | DoReFaByteActivation) and low == 0
    factor, step = (float(high), 1.0) if by_levels else (1.0, value)
    return Codes(
        low, high, factor, step, value, is_summand, middle == 0, lambda values: quantizer.codes(values, bits).integers
    )
