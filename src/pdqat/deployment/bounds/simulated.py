"""Spans of the simulated model: what its float32 arithmetic can make, in any order of its sums.

Layers and norms are followed as training computes them: activations and weights on their grids, products in float32,
norms, roundings. Codes that are given, a runtime's, take the place of the ones that layers read and add. Without them
the ends of codes are carried on from the input to the output, which then hold every result that rounding can lead to.

In inexact channels an integer file rounds numbers that are not quite those of float32. How far away they can be is
known (`Frozen.most_off`): the ends are moved by it before they are rounded.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.deployment.bounds.real import RealSpans, normalized
from pdqat.deployment.bounds.reference import OTHER_MODEL, Compared, shape
from pdqat.deployment.bounds.span import SINGLE, UNIT, Span, product
from pdqat.deployment.integer.frozen import ByLayer, LayerCodes
from pdqat.deployment.integer.layers import layer_or_norm
from pdqat.deployment.integer.operations import PerChannel, shift_of
from pdqat.errors import InputError
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.summand import SUMMAND_BITS, Summand
from pdqat.precision import BitPlan
from pdqat.quantizers import Quantizer


class SimulatedSpans(RealSpans):
    """A followed network in evaluation mode under a plan, on one batch.

    most_off    how far what a file rounds may be from float32, in codes, per channel of what layers read and add
    given       the codes that a runtime made; without them nothing is compared
    biases_off  how far biases in a file are from the layers' own
    """

    def __init__(
        self,
        followed: fx.GraphModule,
        plan: BitPlan,
        most_off: ByLayer[PerChannel] | None = None,
        given: LayerCodes | None = None,
        biases_off: Mapping[str, PerChannel] | None = None,
    ) -> None:
        super().__init__(followed)
        self._plan, self._biases_off = plan, biases_off or {}
        self._read = _Roundings({} if most_off is None else most_off.read, None if given is None else given.read)
        self._added = _Roundings({} if most_off is None else most_off.added, None if given is None else given.added)

    @property
    def codes(self) -> Compared:
        """All that were given."""
        return self._read.compared + self._added.compared

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A layer, a norm, or anything else."""
        module = layer_or_norm(self.fetch_attr(str(target)))
        if module is None:
            return super().call_module(target, args, kwargs)
        span = args[0] if args else kwargs["input"]
        result = self._layer(module, span) if isinstance(module, PrecisionLayer) else self._norm(module, span)
        return self._summand(module, module.name, result)

    def _layer(self, layer: PrecisionLayer, span: Any) -> Span:
        precision, weight = self._plan[layer.name], layer.full_weight()
        if precision.weight is not None or precision.activation is not None:
            view = layer.views[self._plan.name]
            assert isinstance(view, LayerQuantizers)
            if precision.weight is not None:
                weight = view.weight.quantize(layer.rows, precision.weight)
            if precision.activation is not None:
                span = self._read.through(layer.name, span, view.activation, precision.activation)
        if layer.weights_only:
            return Span.of(layer._operate(span, weight, None))
        made = product(span, weight, layer.bias, layer._operate)
        if layer.name not in self._biases_off:
            return made
        return made.widened(self._biases_off[layer.name].meeting(made.low))

    def _norm(self, norm: PrecisionNorm, span: Span) -> Span:
        view = norm.views[self._plan.name]
        assert isinstance(view, _BatchNorm)
        return normalized(view, span)

    def _summand(self, module: Summand, name: str, span: Span) -> Span:
        if self._plan.name not in module.sums:
            return span
        quantizer = module.sums[self._plan.name]
        assert isinstance(quantizer, Quantizer)
        return self._added.through(name, span, quantizer, SUMMAND_BITS)


class _Roundings:
    """Roundings of one kind, call by call."""

    def __init__(self, most_off: Mapping[str, list[PerChannel]], given: Mapping[str, list[Tensor]] | None) -> None:
        self._most_off = {name: iter(calls) for name, calls in most_off.items()}
        self._given = None if given is None else {name: iter(calls) for name, calls in given.items()}
        self.compared = Compared()

    def through(self, name: str, span: Span, quantizer: Quantizer, bits: int) -> Span:
        """The quantised numbers behind codes between the ends, or behind those that are given."""
        grid = quantizer.codes(span.middle, bits)
        lowest = int(quantizer.codes(torch.tensor(-torch.inf), bits).integers)
        span = span.rounded(SINGLE).widened(SINGLE * UNIT * shift_of(lowest) * grid.scale.double())
        if name in self._most_off:
            span = span.widened(next(self._most_off[name]).meeting(span.low) * grid.scale)
        ends = span.through(lambda end: quantizer.codes(end, bits).integers)
        if self._given is not None:
            codes = next(self._given[name])
            if codes.shape != ends.low.shape:
                raise InputError(f"{OTHER_MODEL}: {name} reads codes of shape {shape(codes)}, not {shape(ends.low)}")
            self.compared += Compared.of(codes != grid.integers, ends.holds(codes))
            ends = Span.of(codes)
        return _on_grid(ends, grid.scale, grid.offset)


def _on_grid(codes: Span, scale: Tensor, offset: Tensor) -> Span:
    """The numbers that codes stand for, as float32 has them."""

    def number(code: Tensor) -> Tensor:
        return (code.float() * scale.float() + offset.float()).double()

    return codes.through(number)
