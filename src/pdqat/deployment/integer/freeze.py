"""Freeze: a network under its plan becomes a module of integer operations.

The model's graph has been followed (`pdqat.deployment.following`). What lies between one quantised layer's integer
sums and the codes of the next (scale, norm, clip, rounding) is folded into one requantisation; so is what lies between
a residual sum and the codes read from it. Layers in full precision, and what is neither quantised nor read by a
quantised layer, stay real.
"""

import copy
import operator
from typing import Any

import torch
from torch import fx
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.deployment.integer.assembly import Assembly
from pdqat.deployment.integer.frozen import Frozen
from pdqat.deployment.integer.graph import (
    Codes,
    codes_of,
    function_of_numbers,
    global_mean,
    is_addition,
    is_flattened,
    is_without_effect,
)
from pdqat.deployment.integer.layers import convolution, is_transposed, layer_or_norm, plain_layer
from pdqat.deployment.integer.names import SHAPE
from pdqat.deployment.integer.operations import LARGEST_EXACT, SUMMAND_ZERO, LookUp, ToReal
from pdqat.deployment.integer.values import (
    EXACT_BITS,
    LARGEST_WEIGHT,
    Product,
    Real,
    Through,
    Value,
    Whole,
    largest_signed,
    through,
)
from pdqat.errors import InputError
from pdqat.layers.kinds import PrecisionEmbedding
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.summand import SUMMAND_BITS
from pdqat.precision import BitPlan
from pdqat.quantizers import Grid, Quantizer

IMAGE_DIMS = 4
"""Samples, channels, rows, columns."""


def freeze(followed: fx.GraphModule, plan: BitPlan) -> Frozen:
    """A followed network under the plan, in evaluation mode; what can't be frozen is an InputError that names it."""
    return _Freezer(followed, plan).frozen()


class _Freezer:
    def __init__(self, followed: fx.GraphModule, plan: BitPlan) -> None:
        self._followed, self._plan = followed, plan
        self._modules = dict(followed.named_modules())
        self._values: dict[fx.Node, Any] = {}
        lowest = plan.lowest_bits_in()
        self._promised = lowest is not None and lowest <= EXACT_BITS
        self._made = Assembly()
        self._real_layers: list[str] = []
        self._reads: list[tuple[str, str]] = []
        self._adds: list[tuple[str, str]] = []

    @torch.no_grad()
    def frozen(self) -> Frozen:
        for node in self._followed.graph.nodes:
            self._values[node] = self._visit(node)
        return Frozen(
            self._made.module(), self._made.folded, self._real_layers, self._reads, self._adds, self._made.biases_off
        )

    def _visit(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return Real(self._made.graph.placeholder(node.name))
        if node.op == "output":
            return self._made.graph.output(fx.map_arg(node.args[0], lambda made: self._made.output(self._values[made])))
        if node.op == "get_attr":
            return self._attribute(node)
        if node.op == "call_module":
            module = layer_or_norm(self._modules[str(node.target)])
            if isinstance(module, PrecisionLayer):
                return self._layer(node, module.name, module)
            if isinstance(module, PrecisionNorm):
                return self._norm(node, module, self._value(node, 0))
        if is_without_effect(node, self._modules):
            return self._value(node, 0)
        function = function_of_numbers(node, self._modules)
        if function is not None:
            return through(self._value(node, 0), function)
        if is_addition(node):
            return self._addition(node)
        return self._pooled(node) or self._flattened(node) or self._as_it_is(node)

    def _value(self, node: fx.Node, index: int) -> Value:
        given = node.args[index] if len(node.args) > index else node.kwargs["input"]
        value: Value = self._values[given]  # type: ignore[index]
        return value

    def _attribute(self, node: fx.Node) -> Real:
        return self._made.constant(operator.attrgetter(str(node.target))(self._followed))

    def _layer(self, node: fx.Node, name: str, layer: PrecisionLayer) -> Value:
        given = self._value(node, 0)
        precision = self._plan[name]
        value: Value | None = None
        if precision.weight is not None and isinstance(layer, PrecisionEmbedding):
            value = self._rows_of_table(name, layer, given)
        elif precision.weight is not None and precision.activation is not None:
            value = self._product(name, layer, given)
        return self._summand(node, name, layer, self._real_layer(name, layer, given) if value is None else value)

    def _real_layer(self, name: str, layer: PrecisionLayer, given: Value) -> Real:
        precision = self._plan[name]
        weight = layer.full_weight()
        node = self._made.real(given)
        if precision.weight is not None or precision.activation is not None:
            view = self._view(layer)
            if precision.weight is not None:
                weight = view.weight.quantize(layer.rows, precision.weight)
            if precision.activation is not None:
                codes = codes_of(view.activation, precision.activation, name)
                node = self._made.call(name, ToReal(codes.value), self._codes_read(given, codes, name))
        self._real_layers.append(name)
        return Real(self._made.call(name, plain_layer(name, layer, weight), node))

    def _rows_of_table(self, name: str, layer: PrecisionEmbedding, given: Value) -> Real | None:
        """An embedding in bytes; None if they can't hold its numbers."""
        grid = self._grid(layer)
        if bool(grid.offset.any()) or int(grid.integers.abs().max()) > LARGEST_WEIGHT:
            return None
        scale = grid.scale.float().flatten() if grid.scale.numel() > 1 else grid.scale.float().reshape(())
        return Real(self._made.call(name, LookUp(grid.integers, scale), self._made.real(given)))

    def _product(self, name: str, layer: PrecisionLayer, given: Value) -> Product | None:
        """A layer on codes; None for a transposed convolution whose sums float32 can't hold."""
        precision, grid = self._plan[name], self._grid(layer)
        assert precision.activation is not None
        convolution(name, layer)  # says what is wrong with it
        largest = int(grid.integers.abs().max())
        if bool(grid.offset.any()):
            raise InputError(f"layer {name} can't be exported: its weights' codes have an offset")
        if largest > LARGEST_WEIGHT:
            raise InputError(
                f"layer {name} can't be exported: its {precision.weight}-bit weights reach {largest}, a signed byte "
                f"{LARGEST_WEIGHT}; train with --quantizer normal-bytes (preset deployable), or with 7 bits"
            )
        codes = codes_of(self._view(layer).activation, precision.activation, name)
        rows = grid.integers.flatten(1).long()
        if is_transposed(layer) and int(rows.abs().sum(1).max()) * max(-codes.low, codes.high) > LARGEST_EXACT:
            return None
        ends = torch.stack([rows * codes.low, rows * codes.high, torch.zeros_like(rows)])
        scale = (grid.scale.double() * codes.value).reshape(-1).expand(len(rows))
        return Product(
            name,
            layer,
            self._codes_read(given, codes, name),
            largest_signed(codes.low, codes.high),
            grid.integers,
            self._promised,
            scale,
            ends.amin(0).sum(1),
            ends.amax(0).sum(1),
        )

    def _view(self, layer: PrecisionLayer) -> LayerQuantizers:
        view = layer.views[self._plan.name]
        assert isinstance(view, LayerQuantizers)
        return view

    def _grid(self, layer: PrecisionLayer) -> Grid:
        """The weight in whole numbers, in rows."""
        bits = self._plan[layer.name].weight
        assert bits is not None
        return self._view(layer).weight.codes(layer.rows, bits)

    def _norm(self, node: fx.Node, norm: PrecisionNorm, given: Value) -> Value:
        name, view = str(node.target), norm.views[self._plan.name]
        assert isinstance(view, _BatchNorm)
        if view.running_mean is None:
            raise InputError(f"norm {name} can't be exported: it keeps no running statistics")
        base = given.base if isinstance(given, Through) else given
        if isinstance(base, Product) and base.weight.dim() == 2 and len(node.meta[SHAPE]) > 2:
            given = Real(self._made.real(given))  # the norm's channels are not the layer's, which stand last
        return self._summand(node, name, norm, through(given, copy.deepcopy(view).eval()))

    def _summand(self, node: fx.Node, name: str, module: PrecisionLayer | PrecisionNorm, value: Value) -> Value:
        """What is added up, in whole numbers, if the network was trained to round it."""
        if self._plan.name not in module.sums:
            return value
        quantizer = module.sums[self._plan.name]
        assert isinstance(quantizer, Quantizer)
        codes = codes_of(quantizer, SUMMAND_BITS, name, is_summand=True)
        made = self._made.codes_of(value, codes, name)
        self._adds.append((name, str(made.target)))
        shape = node.meta[SHAPE]
        channels = shape[1] if len(shape) == IMAGE_DIMS else 0
        return Whole(made, codes.value, codes.low, codes.high, SUMMAND_ZERO, channels)

    def _addition(self, node: fx.Node) -> Value:
        terms = [self._made.whole(self._values[term]) if isinstance(term, fx.Node) else None for term in node.args[:2]]
        first, second = terms
        if first is None or second is None or first.step != second.step:
            return self._as_it_is(node)
        made = self._made.graph.call_function(operator.add, (first.node, second.node))
        low, high, above = first.low + second.low, first.high + second.high, first.above + second.above
        alike = first.channels == second.channels
        return Whole(made, first.step, low, high, above, first.channels * alike, first.summands + second.summands)

    def _pooled(self, node: fx.Node) -> Value | None:
        """The mean of an image in whole numbers, if that is what the image is; norms apply to the mean as well."""
        pooling = global_mean(node, self._modules)
        if pooling is None:
            return None
        keepdim, sizes = pooling
        return self._made.pooled(self._value(node, 0), keepdim and not is_flattened(node, self._modules), sizes)

    def _flattened(self, node: fx.Node) -> Value | None:
        """Such a mean as one row a sample, which it has been made as."""
        mean = node.args[0] if node.args else None
        if not isinstance(mean, fx.Node) or global_mean(mean, self._modules) is None:
            return None
        value: Value = self._values[mean]
        return value if is_flattened(mean, self._modules) and not isinstance(value, Real) else None

    def _as_it_is(self, node: fx.Node) -> Real:
        """Any other function, on real numbers."""
        name = str(node.target)
        if node.op == "call_module":
            module = self._modules[name]
            inside = [key for key, part in module.named_modules() if isinstance(part, PrecisionLayer | PrecisionNorm)]
            if inside:
                raise InputError(
                    f"{name} ({type(module).__name__}) can't be exported: torch keeps {inside[0]} inside of it"
                )
            args = fx.map_arg(node.args, lambda source: self._made.real(self._values[source]))
            kwargs = fx.map_arg(node.kwargs, lambda source: self._made.real(self._values[source]))
            call = self._made.call(name, copy.deepcopy(module).eval())
            call.args, call.kwargs = args, kwargs
            return Real(call)
        return Real(self._made.graph.node_copy(node, lambda source: self._made.real(self._values[source])))

    def _codes_read(self, value: Value, codes: Codes, layer: str) -> fx.Node:
        """The codes of a value, for a layer."""
        node = self._made.codes_of(value, codes, layer)
        self._reads.append((layer, str(node.target)))
        return node
