"""Spans of operations on real numbers: of all functions that files of ours can hold."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.node import map_aggregate
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from pdqat.batches import tensors_in
from pdqat.deployment.bounds import elementwise, masks, norms, products, sums
from pdqat.deployment.bounds.elementwise import RISING, VALLEYS, clamp, converted, span_of
from pdqat.deployment.bounds.span import SINGLE, UNIT, Span, average, line
from pdqat.deployment.integer.functions import function_name, in_functions, reached
from pdqat.deployment.integer.names import OWN_NAME
from pdqat.deployment.integer.operations import Clip, ScaleShift, per_channel
from pdqat.errors import InputError

CHOICES = {
    *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as", "expand"),
    *("expand_as", "broadcast_to", "permute", "transpose", "t", "T", "mT", "cat", "stack", "slice", "narrow"),
    *(
        "select",
        "getitem",
        "unbind",
        "split",
        "split_with_sizes",
        "chunk",
        "index",
        "index_select",
        "gather",
        "embedding",
    ),
    *("flip", "roll", "repeat", "pad", "constant_pad_nd", "pixel_shuffle", "contiguous", "clone", "detach"),
    *("lift_fresh_copy", "alias", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"),
    *("relu", "relu6", "amax", "amin", "max", "min", "floor", "ceil"),
    *(f"max_pool{dims}d" for dims in (1, 2, 3)),
    *(f"max_pool{dims}d_with_indices" for dims in (2, 3)),
    *(f"adaptive_max_pool{dims}d" for dims in (1, 2, 3)),
    *(f"upsample_nearest{dims}d" for dims in (1, 2, 3)),
}
"""They never fall, and choose among their inputs: float32 makes no error."""
OF_SIZES = {"size", "sym_size", "dim", "numel", "sym_numel", "getattr", "arange"}
FILLED = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"}
"""They look at nothing but the shape."""
AVERAGES = {f"{kind}avg_pool{dims}d" for kind in ("", "adaptive_") for dims in (1, 2, 3)}
RESIZED = {"upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "interpolate"}
CONVERSIONS = {"to", "to_copy", "type", "type_as", "float", "long", "int", "bool"}
OF_POSITIVE = {"log", "sqrt"}
"""Below 0 they give nothing, and a span may reach below by a rounding that did not happen."""
RULES: dict[str, Callable[..., Any]] = {
    **elementwise.RULES,
    **masks.RULES,
    **sums.RULES,
    **norms.RULES,
    **products.RULES,
}
BOUNDED = {*CHOICES, *FILLED, *AVERAGES, *RESIZED, *CONVERSIONS, *RULES, *RISING, *VALLEYS, "arange"}
"""All functions that have bounds, by torch's names."""


class RealSpans(fx.Interpreter):
    """Follows a graph, with spans in place of tensors of real numbers; what is constant or whole stays a tensor."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(in_functions(module))
        self.extra_traceback = False  # errors keep their one sentence
        self._node: fx.Node | None = None
        self._reached = reached(self.graph)

    def run_node(self, n: fx.Node) -> Any:
        """Called by torch.fx."""
        self._node = n
        return super().run_node(n)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An input, which is known, or a span itself."""
        given = super().placeholder(target, args, kwargs)
        return Span.of(given) if isinstance(given, Tensor) and given.is_floating_point() else given

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operation of ours, or a module that is known as one."""
        return span_of_module(self.fetch_attr(str(target)), args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of tensors."""
        return self._bounded(target, args, kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method of a tensor."""

        def method(tensor: Any, *rest: Any, **named: Any) -> Any:
            return getattr(tensor, str(target))(*rest, **named)

        return self._bounded(method, args, kwargs)

    def _bounded(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What no input reaches is a constant of the file, whatever makes it."""
        assert self._node is not None
        name = function_name(self._node)
        try:
            made = span_of_function(function, name, args, kwargs, self._node.name)
        except InputError as error:
            where = str(self._node.meta.get(OWN_NAME, self._node.name))
            raise error if where in str(error) else InputError(f"{where}: {error}") from None
        if self._node not in self._reached or not isinstance(made, Tensor) or not made.is_floating_point():
            return made
        return Span.of(made, whole=name in CONVERSIONS)  # of whole numbers that are inputs


def span_of_module(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Of a module's output."""
    span: Span = span_of(args[0] if args else kwargs["input"])
    if isinstance(module, ScaleShift):
        scale, shift = (per_channel(vector.double(), span.low) for vector in (module.scale, module.shift))
        return line(span, scale, shift, shift.abs())
    if isinstance(module, _BatchNorm | _InstanceNorm):
        return normalized(module, span)
    if isinstance(module, Clip):
        return clamp(span, module.low, module.high)
    if isinstance(module, nn.Hardtanh):
        return clamp(span, module.min_val, module.max_val)
    graph = fx.Graph()
    graph.output(graph.call_module("module", (graph.placeholder("x"),)))
    inside = in_functions(fx.GraphModule({"module": module}, graph))
    if any(node.op == "call_module" for node in inside.graph.nodes):
        return span.through(module)  # those that stay are ReLU and what changes nothing
    return RealSpans(inside).run(span)


def span_of_function(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], node: str = ""
) -> Any:
    """Of a function's result; what is no tensor of real numbers comes back as it is."""
    given: list[Any] = []
    map_aggregate((args, kwargs), lambda part: given.append(part) if isinstance(part, Span | Tensor) else None)
    if not any(isinstance(part, Span) for part in given):
        return function(*args, **kwargs)
    if name in OF_SIZES or name in FILLED:
        return function(*_ends(args, "single"), **_ends(kwargs, "single"))
    kwargs = {
        key: value for key, value in kwargs.items() if value is not None and key not in ("inplace", "_stacklevel")
    }
    first = [kwargs.pop(key) for key in ("input", "self") if key in kwargs]
    args = (*first, *args)
    if name in ("max", "min") and len(args) > 1 and isinstance(args[1], Span | Tensor):
        name = f"{name}imum"
    if name in ("pad", "constant_pad_nd"):
        args, kwargs = _single_numbers((args, kwargs))
    if name in CHOICES or (name == "interpolate" and (args[3:4] or [kwargs.get("mode", "nearest")])[0] == "nearest"):
        return _chosen(function, args, kwargs)
    if name in RULES:
        try:
            inspect.signature(RULES[name]).bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(f"{node or name}: the function {name} with these arguments has no bounds") from error
        return RULES[name](*args, **kwargs)
    span = args[0]
    if name in CONVERSIONS:
        return converted(span, function, *args[1:], **kwargs)
    if name in VALLEYS:
        return VALLEYS[name].through(span, lambda end: function(end.clone(), *args[1:], **kwargs))
    if name in OF_POSITIVE:
        span = clamp(span, min=0)
    if name in RISING:  # a function may work in place: it gets copies
        return RISING[name].around(span.through(lambda end: function(end.clone(), *args[1:], **kwargs)), span)
    if name in AVERAGES:
        return average(span, lambda end: function(end, *args[1:], **kwargs))
    if name in RESIZED:
        return _resized(span, lambda end: function(end, *args[1:], **kwargs))
    raise InputError(f"{node or name}: the function {name} has no bounds")


def _chosen(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    whole: list[bool] = []
    map_aggregate((args, kwargs), lambda part: whole.append(part.whole) if isinstance(part, Span) else None)
    low, high = (function(*_ends(args, end), **_ends(kwargs, end)) for end in ("low", "high"))
    if isinstance(low, Tensor):
        return Span(low, high, all(whole))
    if not tensors_in(low):
        return low
    pairs = zip(low, high, strict=True)
    return tuple(Span(*pair, all(whole)) if pair[0].is_floating_point() else pair[0] for pair in pairs)


def _resized(span: Span, apply: Callable[[Tensor], Tensor]) -> Span:
    """Between the nearest numbers; places in a row of n are off by n units."""
    sizes = span.low.shape[2:]
    largest = span.size.flatten(2).amax(2).view(*span.low.shape[:2], *[1] * len(sizes))
    return span.through(apply).widened((4 * max(sizes) + SINGLE) * UNIT * largest)


def normalized(norm: _BatchNorm | _InstanceNorm, span: Span) -> Span:
    """Behind a batch norm with its running statistics, or an instance norm."""
    statistics = norm.running_mean, norm.running_var
    if isinstance(norm, _InstanceNorm) and norm.running_mean is None:
        return norms.instance_norm(span, norm.weight, norm.bias, eps=norm.eps)
    return norms.batch_norm(span, norm.weight, norm.bias, *statistics, eps=norm.eps)


def _single_numbers(arguments: Any) -> Any:
    """Numbers as float32 has them."""
    return map_aggregate(arguments, lambda part: float(torch.tensor(part)) if isinstance(part, float) else part)


def _ends(arguments: Any, end: str) -> Any:
    return map_aggregate(arguments, lambda part: getattr(part, end) if isinstance(part, Span) else part)
