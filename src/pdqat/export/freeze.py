"""Freeze: a network under its plan becomes a module of integer operations.

The model's graph is followed with torch.fx. What lies between one quantised layer's integer sums and the codes of the
next (scale, norm, clip, rounding) is folded into one requantisation; so is what lies between a residual sum and the
codes read from it. Layers in full precision, and what is neither quantised nor read by a quantised layer, stay real.
"""

import copy
import operator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.errors import InputError
from pdqat.export.graph import (
    Codes,
    check_padding,
    codes_of,
    convolution,
    evaluating,
    function_of_numbers,
    is_addition,
    padding_of,
    traced,
)
from pdqat.export.operations import (
    SUMMAND_ZERO,
    Clip,
    RealProduct,
    RequantizedProduct,
    ScaleShift,
    SumsToCodes,
    ToCodes,
    ToReal,
)
from pdqat.export.requantize import requantization
from pdqat.layers import Network
from pdqat.layers.layer import LayerQuantizers, PrecisionLayer
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.summand import SUMMAND_BITS
from pdqat.precision import BitPlan
from pdqat.quantizers import Quantizer

LARGEST_WEIGHT = 127
SIGNED_BELOW = 129
"""Weights are stored as signed bytes where codes are unsigned and smaller. Processors without VNNI add two products of
unsigned codes and signed weights in 16 bits, which 2 x 255 x 127 exceeds, and OpenVINO's kernels for signed codes and
signed weights give other numbers."""
SUMS_FINE = 1 << 10
"""The offset of a requantised sum is a whole number of so small a part of a step."""


@dataclass(frozen=True)
class Folded:
    """How well a requantisation reproduces float32."""

    name: str
    channels: int
    exact: int
    """Channels whose codes are those of float32 for every integer within reach."""


@dataclass(frozen=True)
class Frozen:
    """A network as integer operations, with the evidence."""

    module: fx.GraphModule
    folded: list[Folded]
    real_layers: list[str]
    """Layers that compute in real numbers."""


def freeze(net: Network, plan: BitPlan) -> Frozen:
    """The network under the plan, in evaluation mode; what can't be frozen is an InputError that names it."""
    return _Freezer(net, plan).frozen()


@dataclass(frozen=True, eq=False)
class _Real:
    """A tensor of real numbers."""

    node: fx.Node


@dataclass(frozen=True, eq=False)
class _Whole:
    """Whole numbers of a step, from low to high; stored with the zero points of their summands, together `above`."""

    node: fx.Node
    step: float
    low: int
    high: int
    above: int


@dataclass(frozen=True, eq=False)
class _Product:
    """A quantised layer on codes, not computed yet: what reads it says how it is rounded."""

    name: str
    layer: PrecisionLayer
    codes: fx.Node
    signed: bool
    """Whether weights may be stored as signed bytes: see SIGNED_BELOW."""
    weight: Tensor
    """Whole numbers."""
    scale: Tensor
    """Per channel, of the output's whole numbers."""
    low: Tensor
    high: Tensor
    """Per channel, what the whole numbers can reach."""


@dataclass(frozen=True, eq=False)
class _Through:
    """Functions of single numbers, per channel, on one of the above; not computed yet."""

    base: "_Real | _Whole | _Product"
    functions: tuple[nn.Module, ...]


_Value = _Real | _Whole | _Product | _Through


class _Freezer:
    def __init__(self, net: Network, plan: BitPlan) -> None:
        self._net, self._plan = net, plan
        self._modules = dict(net.model.named_modules())
        self._graph = fx.Graph()
        self._root = nn.Module()
        self._values: dict[fx.Node, Any] = {}
        self._made: dict[tuple[Any, ...], fx.Node] = {}
        self._folded: list[Folded] = []
        self._real_layers: list[str] = []

    @torch.no_grad()
    def frozen(self) -> Frozen:
        with evaluating(self._net):
            for node in traced(self._net.model).nodes:
                self._values[node] = self._visit(node)
        self._graph.lint()
        return Frozen(fx.GraphModule(self._root, self._graph).eval(), self._folded, self._real_layers)

    def _visit(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return _Real(self._graph.placeholder(node.name))
        if node.op == "output":
            return self._graph.output(self._real(self._values[node.args[0]]))  # type: ignore[index]
        if node.op == "get_attr":
            return self._attribute(node)
        if node.op == "call_module":
            module = self._modules[str(node.target)]
            if isinstance(module, PrecisionLayer):
                return self._layer(str(node.target), module, self._value(node, 0))
            if isinstance(module, PrecisionNorm):
                return self._norm(str(node.target), module, self._value(node, 0))
            if isinstance(module, nn.Identity | nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d):
                return self._value(node, 0)
        function = function_of_numbers(node, self._modules)
        if function is not None:
            return _through(self._value(node, 0), function)
        if is_addition(node):
            return self._addition(node)
        return self._as_it_is(node)

    def _value(self, node: fx.Node, index: int) -> _Value:
        given = node.args[index] if len(node.args) > index else node.kwargs["input"]
        found: _Value = self._values[given]  # type: ignore[index]
        return found

    def _attribute(self, node: fx.Node) -> _Real:
        value: Any = self._net.model
        for part in str(node.target).split("."):
            value = getattr(value, part)
        name = f"constant{len(self._made)}"
        self._root.register_buffer(name, value.detach().clone())
        self._made[node, "attribute"] = made = self._graph.get_attr(name)
        return _Real(made)

    def _layer(self, name: str, layer: PrecisionLayer, given: _Value) -> _Value:
        precision = self._plan[name]
        if precision.weight is None or precision.activation is None:
            value: _Value = self._real_layer(name, layer, given)
        else:
            value = self._product(name, layer, given)
        return self._summand(name, layer, value)

    def _real_layer(self, name: str, layer: PrecisionLayer, given: _Value) -> _Real:
        precision = self._plan[name]
        check_padding(name, layer)
        plain: Any = copy.deepcopy(layer)
        weight = layer.full_weight()
        node = self._real(given)
        if precision.weight is not None or precision.activation is not None:
            view = layer.views[self._plan.name]
            assert isinstance(view, LayerQuantizers)
            if precision.weight is not None:
                weight = view.weight.quantize(layer.weight, precision.weight)
            if precision.activation is not None:
                codes = codes_of(view.activation, precision.activation, name)
                node = self._call(name, ToReal(codes.value), self._codes_of(given, codes, name))
        plain.restore_()
        plain.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
        if weight.dim() > 2:
            plain.padding = padding_of(name, layer)
        self._real_layers.append(name)
        return _Real(self._call(name, plain.eval(), node))

    def _product(self, name: str, layer: PrecisionLayer, given: _Value) -> _Product:
        precision = self._plan[name]
        assert precision.weight is not None
        assert precision.activation is not None
        view = layer.views[self._plan.name]
        assert isinstance(view, LayerQuantizers)
        check_padding(name, layer)
        grid = view.weight.codes(layer.weight, precision.weight)
        largest = int(grid.integers.abs().max())
        if bool(grid.offset.any()):
            raise InputError(f"layer {name} can't be exported: its weights' codes have an offset")
        if largest > LARGEST_WEIGHT:
            raise InputError(
                f"layer {name} can't be exported: its {precision.weight}-bit weights reach {largest}, a signed byte "
                f"{LARGEST_WEIGHT}; train with --quantizer dorefa-int8 (preset deployable), or with 7 bits"
            )
        codes = codes_of(view.activation, precision.activation, name)
        rows = grid.integers.flatten(1).long()
        ends = torch.stack([rows * codes.low, rows * codes.high, torch.zeros_like(rows)])
        scale = (grid.scale.double() * codes.value).reshape(-1).expand(len(rows))
        return _Product(
            name,
            layer,
            self._codes_of(given, codes, name),
            codes.low >= 0 and codes.high < SIGNED_BELOW,
            grid.integers,
            scale,
            ends.amin(0).sum(1),
            ends.amax(0).sum(1),
        )

    def _norm(self, name: str, norm: PrecisionNorm, given: _Value) -> _Value:
        view = norm.views[self._plan.name]
        assert isinstance(view, _BatchNorm)
        if view.running_mean is None:
            raise InputError(f"norm {name} can't be exported: it keeps no running statistics")
        return self._summand(name, norm, _through(given, copy.deepcopy(view).eval()))

    def _summand(self, name: str, module: PrecisionLayer | PrecisionNorm, value: _Value) -> _Value:
        """What is added, in whole numbers, if the network was trained to round it."""
        if self._plan.name not in module.sums:
            return value
        quantizer = module.sums[self._plan.name]
        assert isinstance(quantizer, Quantizer)
        codes = codes_of(quantizer, SUMMAND_BITS, name, is_summand=True)
        return _Whole(self._codes_of(value, codes, name), codes.value, codes.low, codes.high, SUMMAND_ZERO)

    def _addition(self, node: fx.Node) -> _Value:
        terms = [self._whole(self._values[each]) if isinstance(each, fx.Node) else None for each in node.args[:2]]
        first, second = terms
        if first is None or second is None or first.step != second.step:
            return self._as_it_is(node)
        made = self._graph.call_function(operator.add, (first.node, second.node))
        above = first.above + second.above
        return _Whole(made, first.step, first.low + second.low, first.high + second.high, above)

    def _whole(self, value: _Value) -> _Whole | None:
        """A value as whole numbers, if that is what it is: sums, also behind clips at whole numbers of their step."""
        if isinstance(value, _Whole):
            return value
        if not isinstance(value, _Through) or not isinstance(value.base, _Whole):
            return None
        found = value.base
        for clip in value.functions:
            if not isinstance(clip, Clip):
                return None
            low, high = (None if each is None else each / found.step for each in (clip.low, clip.high))
            if any(each is not None and each != round(each) for each in (low, high)):
                return None
            lowest = found.low if low is None else max(round(low), found.low)
            highest = found.high if high is None else min(round(high), found.high)
            node = self._call("clip", Clip(lowest, highest), found.node)
            found = _Whole(node, found.step, lowest, highest, found.above)
        return found

    def _as_it_is(self, node: fx.Node) -> _Real:
        """Any other function, on real numbers."""
        name = str(node.target)
        if node.op == "call_module":
            module = self._modules[name]
            inside = [key for key, each in module.named_modules() if isinstance(each, PrecisionLayer | PrecisionNorm)]
            if inside:
                raise InputError(
                    f"{name} ({type(module).__name__}) can't be exported: torch keeps {inside[0]} inside of it"
                )
            args = fx.map_arg(node.args, lambda each: self._real(self._values[each]))
            kwargs = fx.map_arg(node.kwargs, lambda each: self._real(self._values[each]))
            call = self._call(name, copy.deepcopy(module).eval())
            call.args, call.kwargs = args, kwargs
            return _Real(call)
        return _Real(self._graph.node_copy(node, lambda each: self._real(self._values[each])))

    def _real(self, value: _Value) -> fx.Node:
        """A value in real numbers."""
        if isinstance(value, _Real):
            return value.node
        key = (value, "real")
        if key not in self._made:
            self._made[key] = self._make_real(value)
        return self._made[key]

    def _make_real(self, value: _Value) -> fx.Node:
        if isinstance(value, _Whole):
            return self._call("real", ToReal(value.step), value.node)
        if isinstance(value, _Product):
            bias = value.layer.bias
            zeros = torch.zeros(len(value.scale))
            product = RealProduct(
                value.weight,
                convolution(value.name, value.layer),
                value.signed,
                value.scale.float(),
                zeros if bias is None else bias.detach().clone(),
            )
            return self._call(value.name, product, value.codes)
        assert isinstance(value, _Through)
        node = self._real(value.base)
        for function in value.functions:
            node = self._call("function", _folded_norm(function), node)
        return node

    def _codes_of(self, value: _Value, codes: Codes, name: str) -> fx.Node:
        """The codes of a value, folded into what makes it where that is whole numbers."""
        key = (value, codes.low, codes.high, codes.factor, codes.step, codes.is_summand)
        if key not in self._made:
            base, functions = (value.base, value.functions) if isinstance(value, _Through) else (value, ())
            if isinstance(base, _Product):
                self._made[key] = self._requantized_product(base, functions, codes)
            elif isinstance(base, _Whole):
                self._made[key] = self._requantized_sum(base, functions, codes, name)
            else:
                if not codes.has_zero:
                    raise InputError(f"layer {name} can't be exported: it reads signs (1 bit) of real numbers")
                node = self._real(value)
                self._made[key] = self._call(
                    name, ToCodes(codes.factor, codes.step, codes.low, codes.high, codes.is_summand), node
                )
        return self._made[key]

    def _requantized_product(self, base: _Product, functions: tuple[nn.Module, ...], codes: Codes) -> fx.Node:
        bias = base.layer.bias

        def epilogue(integers: Tensor) -> Tensor:
            values = (integers.double() * base.scale[:, None]).float()
            values = values if bias is None else values + bias[:, None]
            return _apply(functions, codes, values)

        fine = LARGEST_WEIGHT // max(int(base.weight.abs().max()), 1)
        found, sign = requantization(epilogue, base.low, base.high, codes.above_lowest, fine)
        self._folded.append(Folded(base.name, len(sign), int(found.exact.sum())))
        factor = fine * sign * ~found.constant
        weight = base.weight * factor.view(-1, *[1] * (base.weight.dim() - 1))
        product = RequantizedProduct(
            weight,
            convolution(base.name, base.layer),
            base.signed,
            found.multiplier,
            found.offset,
            codes.low,
            codes.high,
            codes.is_summand,
        )
        return self._call(base.name, product, base.codes)

    def _requantized_sum(self, base: _Whole, functions: tuple[nn.Module, ...], codes: Codes, name: str) -> fx.Node:
        channels = next((len(each.running_mean) for each in functions if isinstance(each, _BatchNorm)), 1)  # type: ignore[arg-type]

        def epilogue(integers: Tensor) -> Tensor:
            return _apply(functions, codes, (integers.double() * base.step).float())

        low, high = torch.full((channels,), base.low), torch.full((channels,), base.high)
        found, sign = requantization(epilogue, low, high, codes.above_lowest, SUMS_FINE)
        self._folded.append(Folded(f"{name} (its input)", channels, int(found.exact.sum())))
        slope = SUMS_FINE * found.multiplier.double() * sign * ~found.constant
        shift = found.multiplier.double() * found.offset - slope * base.above
        rounding = SumsToCodes(slope.float(), shift.float(), base.above, codes.low, codes.high, codes.is_summand)
        return self._call(name, rounding, base.node)

    def _call(self, name: str, module: nn.Module, *inputs: fx.Node) -> fx.Node:
        unique = f"{name.replace('.', '_')}_{len(self._root._modules)}"
        self._root.add_module(unique, module)
        return self._graph.call_module(unique, inputs)


def _through(value: _Value, function: nn.Module) -> _Through:
    base, before = (value.base, value.functions) if isinstance(value, _Through) else (value, ())
    return _Through(base, (*before, function))


def _apply(functions: tuple[nn.Module, ...], codes: Codes, values: Tensor) -> Tensor:
    """Codes of values (channels, n)."""
    values = values.T.contiguous()  # samples first, as modules want it
    for function in functions:
        if isinstance(function, _BatchNorm):  # whatever its number of dimensions
            means, variances = function.running_mean, function.running_var
            values = F.batch_norm(values, means, variances, function.weight, function.bias, eps=function.eps)
        else:
            values = function(values)
    return codes.of(values).T


def _folded_norm(function: nn.Module) -> nn.Module:
    if not isinstance(function, _BatchNorm):
        return function
    assert function.running_mean is not None
    assert function.running_var is not None
    scale = torch.rsqrt(function.running_var.double() + function.eps)
    scale = scale if function.weight is None else scale * function.weight.double()
    shift = -function.running_mean.double() * scale
    shift = shift if function.bias is None else shift + function.bias.double()
    return ScaleShift(scale.float(), shift.float())
