"""Spans of operations on real numbers: those that files of ours can hold, and any other by a stated assumption."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.node import map_aggregate
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.deployment.bounds.span import (
    SINGLE,
    UNIT,
    Span,
    average,
    difference,
    elementwise_product,
    line,
    product,
    total,
)
from pdqat.deployment.integer.graph import WITHOUT_EFFECT
from pdqat.deployment.integer.operations import Clip, ScaleShift, per_channel

LIPSCHITZ = 4.0
"""Of a function that is not known here: how far its results move, as a multiple of how far its inputs do, at most. Only
programs of torch can hold such functions; those of activations are below 1.2."""
RISING_MODULES = (
    *WITHOUT_EFFECT,
    Clip,
    nn.ReLU,
    nn.Hardtanh,
    nn.MaxPool1d,
    nn.MaxPool2d,
    nn.MaxPool3d,
    nn.AdaptiveMaxPool1d,
    nn.AdaptiveMaxPool2d,
    nn.AdaptiveMaxPool3d,
    nn.Flatten,
    nn.Unflatten,
)
"""They never fall, and choose among their inputs: float32 makes no error."""
RISING_FUNCTIONS = {
    *("relu", "clamp", "clip", "hardtanh", "relu6", "max_pool1d", "max_pool2d", "max_pool3d", "dropout"),
    *("flatten", "reshape", "view", "permute", "transpose", "squeeze", "unsqueeze", "contiguous", "expand"),
    *("cat", "concat", "stack", "getitem", "getattr", "size", "amax", "narrow", "chunk", "split"),
}
SMOOTH_MODULES = (nn.LeakyReLU, nn.Sigmoid, nn.Tanh, nn.ELU, nn.SELU, nn.CELU, nn.Softplus, nn.Hardsigmoid)
"""They never fall, with an error of float32."""
SMOOTH_FUNCTIONS = {"leaky_relu", "sigmoid", "tanh", "elu", "selu", "celu", "softplus", "hardsigmoid", "exp"}
AVERAGE_MODULES = (
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AvgPool3d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveAvgPool3d,
)
AVERAGE_FUNCTIONS = {
    *("mean", "sum", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
}
OF_TWO: dict[str, Callable[[Span, Span], Span]] = {
    "add": total,
    "iadd": total,
    "sub": difference,
    "isub": difference,
    "mul": elementwise_product,
    "imul": elementwise_product,
}


class RealSpans(fx.Interpreter):
    """Follows a graph, with spans in place of tensors."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False  # errors keep their one sentence

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The input, which is known."""
        return Span.of(super().placeholder(target, args, kwargs))

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A layer or function of torch's."""
        return span_of_module(self.fetch_attr(str(target)), args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of tensors."""
        return span_of_function(target, target.__name__, args, kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method of a tensor."""
        return span_of_function(getattr(Tensor, str(target)), str(target), args, kwargs)


def span_of_module(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Span:
    """Of a module's output."""
    span: Span = args[0] if args else kwargs["input"]
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return product(span, module.weight, module.bias, module._conv_forward)
    if isinstance(module, nn.Linear):
        return product(span, module.weight, module.bias, nn.functional.linear)
    if isinstance(module, ScaleShift):
        scale, shift = (per_channel(vector.double(), span.low) for vector in (module.scale, module.shift))
        return line(span, scale, shift, shift.abs())
    if isinstance(module, _BatchNorm) and module.running_mean is not None:
        return normalized(module, span)
    if isinstance(module, RISING_MODULES):
        return span.through(module)
    if isinstance(module, SMOOTH_MODULES):
        return span.through(module).rounded(SINGLE)
    if isinstance(module, AVERAGE_MODULES):
        return average(span, module)
    result: Span = unknown(copy.deepcopy(module).double(), args, kwargs)
    return result


def span_of_function(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Of a function's result; what is no tensor of real numbers comes back as it is."""
    name = name.rstrip("_")  # in place or not
    if name in RISING_FUNCTIONS:
        low, high = (function(*_ends(args, end), **_ends(kwargs, end)) for end in ("low", "high"))
        if isinstance(low, tuple | list):
            return type(low)(Span(*pair) for pair in zip(low, high, strict=True)) if _tensors(low) else low
        return Span(low, high) if isinstance(low, Tensor) else low
    if name in SMOOTH_FUNCTIONS:
        return args[0].through(lambda end: function(end, *args[1:], **kwargs)).rounded(SINGLE)
    if name in AVERAGE_FUNCTIONS:
        return average(args[0], lambda end: function(end, *args[1:], **kwargs))
    if name in OF_TWO and len(args) == 2 and not kwargs:
        return OF_TWO[name](_span(args[0]), _span(args[1]))
    return unknown(function, args, kwargs)


def normalized(norm: _BatchNorm, span: Span) -> Span:
    """Behind a batch norm with its running statistics."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = torch.rsqrt(norm.running_var.double() + norm.eps)
    scale = scale if norm.weight is None else scale * norm.weight.detach().double()
    moved = norm.running_mean.double() * scale
    bias = torch.zeros_like(moved) if norm.bias is None else norm.bias.detach().double()
    vectors = (per_channel(vector, span.low) for vector in (scale, bias - moved, bias.abs() + moved.abs()))
    return line(span, *vectors)


def unknown(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Behind a function of which only LIPSCHITZ is assumed: all of a sample's numbers may move by its widest span's."""
    inputs: list[Span] = []
    map_aggregate((args, kwargs), lambda part: inputs.append(part) if isinstance(part, Span) else None)
    result = function(*_ends(args, "middle"), **_ends(kwargs, "middle"))
    if not isinstance(result, Tensor):
        return result
    width = sum(_per_sample(span.width / 2) for span in inputs)
    size = sum(_per_sample(span.size) for span in inputs) + _per_sample(result.abs())
    error = LIPSCHITZ * (width + SINGLE * UNIT * size)
    return Span.of(result).widened(error.view(-1, *[1] * (result.dim() - 1)))


def _per_sample(tensor: Tensor) -> Tensor:
    return tensor.reshape(len(tensor), -1).amax(1)


def _ends(arguments: Any, end: str) -> Any:
    return map_aggregate(arguments, lambda part: getattr(part, end) if isinstance(part, Span) else part)


def _span(operand: Any) -> Span:
    if isinstance(operand, Span):
        return operand
    return Span.of(operand if isinstance(operand, Tensor) else torch.tensor(float(operand)))


def _tensors(results: Any) -> bool:
    return all(isinstance(part, Tensor) for part in results)
