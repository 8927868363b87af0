"""Assembly: the graph of integer operations, as it grows. What is needed twice is made once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.deployment.integer.folding import (
    folded_norm,
    real_product,
    requantized_product,
    rounded_product,
    rounded_sum,
    whole_scores,
)
from pdqat.deployment.integer.graph import Codes
from pdqat.deployment.integer.layers import is_transposed
from pdqat.deployment.integer.names import OWN_NAME
from pdqat.deployment.integer.operations import LARGEST_EXACT, Clip, PerChannel, ProductSums, ToCodes, ToReal
from pdqat.deployment.integer.sum_operations import PooledSums, SumsToCodes
from pdqat.deployment.integer.values import Product, Real, Through, Value, Whole
from pdqat.errors import InputError


@dataclass(frozen=True)
class Folded:
    """How well a requantisation reproduces float32."""

    name: str
    channels: int
    exact: int
    """Channels whose codes are those of float32 for every integer within reach, in the arithmetic of every runtime."""


class Assembly:
    """Gives values the form that is asked for: real numbers, codes, or whole numbers that can be added."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.root = nn.Module()
        self.folded: list[Folded] = []
        self.biases_off: dict[str, PerChannel] = {}
        """Of layers whose outputs are whole scores, how far their rounded biases are from their own."""
        self._made: dict[tuple[Any, ...], fx.Node] = {}

    def module(self) -> fx.GraphModule:
        """All of it."""
        self.graph.lint()
        return fx.GraphModule(self.root, self.graph).eval()

    def constant(self, value: Tensor) -> Real:
        """A tensor of the model itself."""
        name = f"constant{len(self.root._buffers)}"
        self.root.register_buffer(name, value.detach().clone())
        return Real(self.graph.get_attr(name))

    def real(self, value: Value) -> fx.Node:
        """A value in real numbers."""
        if isinstance(value, Real):
            return value.node
        key = (value, "real")
        if key not in self._made:
            self._made[key] = self._make_real(value)
        return self._made[key]

    def output(self, value: Value) -> fx.Node:
        """A value in real numbers, as an output of the network: of whole scores, where it is a product."""
        if not isinstance(value, Product) or (scores := whole_scores(value)) is None:
            return self.real(value)
        key = (value, "scores")
        if key not in self._made:
            product = real_product(value, scores)
            if value.layer.bias is not None:
                off = value.layer.bias.detach().double() - scores.offset.double() * scores.step
                self.biases_off[value.name] = PerChannel(off.abs(), product.channel_dim)
            self._made[key] = self.call(value.name, product, value.codes)
        return self._made[key]

    def _make_real(self, value: Value) -> fx.Node:
        if isinstance(value, Whole):
            return self.call("real", ToReal(value.step), value.node)
        if isinstance(value, Product):
            return self.call(value.name, real_product(value), value.codes)
        assert isinstance(value, Through)
        node = self.real(value.base)
        for function in value.functions:
            node = self.call("function", folded_norm(function), node)
        return node

    def codes_of(self, value: Value, codes: Codes, name: str) -> fx.Node:
        """The codes of a value, folded into what makes it where that is whole numbers."""
        key = (value, codes.low, codes.high, codes.factor, codes.step, codes.is_summand)
        if key not in self._made:
            base, functions = (value.base, value.functions) if isinstance(value, Through) else (value, ())
            if isinstance(base, Product):
                self._made[key] = self._rounded(base, functions, codes)
            elif isinstance(base, Whole):
                rounding = rounded_sum(base, functions, codes)
                self._fold(f"{name} (its input)", rounding.exact)
                self._made[key] = self.call(name, rounding, base.node)
            else:
                if not codes.has_zero:
                    raise InputError(
                        f"layer {name} can't be exported: it reads signs (1 bit) of real numbers; give its activations "
                        "2 bits or more, or let it read a quantised layer directly"
                    )
                node = self.real(value)
                self._made[key] = self.call(
                    name, ToCodes(codes.factor, codes.step, codes.low, codes.high, codes.is_summand), node
                )
        return self._made[key]

    def _rounded(self, base: Product, functions: tuple[nn.Module, ...], codes: Codes) -> fx.Node:
        if is_transposed(base.layer):  # runtimes have no kernel that rounds what it makes
            return self._rounded_sums(base, *rounded_product(base, functions, codes))
        product = requantized_product(base, functions, codes)
        if base.promised and not bool(product.exact.all()):
            sums, rounding = rounded_product(base, functions, codes)
            if int(rounding.exact.sum()) > int(product.exact.sum()):
                return self._rounded_sums(base, sums, rounding)
        self._fold(base.name, product.exact)
        return self.call(base.name, product, base.codes)

    def _rounded_sums(self, base: Product, sums: ProductSums, rounding: SumsToCodes) -> fx.Node:
        self._fold(base.name, rounding.exact)
        return self.call(base.name, rounding, self.call(base.name, sums, base.codes))

    def _fold(self, name: str, exact: Tensor) -> None:
        self.folded.append(Folded(name, len(exact), int(exact.sum())))

    def call(self, name: str, module: nn.Module, *inputs: fx.Node) -> fx.Node:
        """An operation, under a name of its own."""
        unique = f"{name.replace('.', '_')}_{len(self.root._modules)}"
        self.root.add_module(unique, module)
        node = self.graph.call_module(unique, inputs)
        node.meta[OWN_NAME] = name
        return node

    def pooled(self, value: Value, keepdim: bool, sizes: Sequence[int]) -> Value | None:
        """The mean over a whole image, of these sizes; None if it is not in whole numbers that float32 can add."""
        norms: tuple[nn.Module, ...] = ()
        if isinstance(value, Through):
            kept = len(value.functions)
            while kept and isinstance(value.functions[kept - 1], _BatchNorm):
                kept -= 1
            norms = value.functions[kept:]
            value = Through(value.base, value.functions[:kept]) if kept else value.base
        whole, count = self.whole(value), math.prod(sizes)
        if whole is None or count * max(-whole.low, whole.high + whole.above) > LARGEST_EXACT:
            return None
        node = self.call("mean", PooledSums(range(2, 2 + len(sizes)), keepdim, count), whole.node)
        pooled = Whole(node, whole.step / count, count * whole.low, count * whole.high, count * whole.above)
        return Through(pooled, norms) if norms else pooled

    def whole(self, value: Value) -> Whole | None:
        """A value as whole numbers, if that is what it is: sums, also behind clips at whole numbers of their step."""
        if isinstance(value, Whole):
            return value
        if not isinstance(value, Through) or not isinstance(value.base, Whole):
            return None
        whole = value.base
        for clip in value.functions:
            if not isinstance(clip, Clip):
                return None
            low, high = (None if end is None else end / whole.step for end in (clip.low, clip.high))
            if any(end is not None and end != round(end) for end in (low, high)):
                return None
            lowest = whole.low if low is None else max(round(low), whole.low)
            highest = whole.high if high is None else min(round(high), whole.high)
            node = self.call("clip", Clip(lowest, highest), whole.node)
            whole = Whole(node, whole.step, lowest, highest, whole.above)
        return whole
