"""Precision-aware layers: one forward for all kinds of them.

A plain layer becomes precision-aware by changing its class in place, so it stays the same object with the same
Parameters and hooks, wherever the model refers to it; changing the class back makes it plain again.
"""

import copy
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor, nn

from pdqat.errors import InputError
from pdqat.layers.arithmetic import in_autocast
from pdqat.layers.clip import Clip
from pdqat.layers.distances import precise
from pdqat.layers.layer_quantizers import Candidates, LayerQuantizers
from pdqat.layers.recorder import Reader, candidate_name
from pdqat.layers.rounding import Rounding, round_input
from pdqat.layers.state import Gradient, ViewState
from pdqat.layers.summand import Summand
from pdqat.precision import FULL, BitPlan, Precision
from pdqat.quantizers import Quantizer


class PrecisionLayer(Summand):
    """A layer that computes what the network's view asks for.

    In full precision it uses `quantizer.full(weight)`; under a plan its input goes through the activation quantiser and
    its weight through the weight quantiser. A layer that no plan quantises (`quantizer` is None) uses its weight as is.
    """

    plain: ClassVar[type[nn.Module]]
    """The class that it had, and gets back."""
    weights_only: ClassVar[bool] = False
    """Whether it reads indices, which have no precision."""

    weight: Tensor
    bias: Tensor | None
    name: str
    views: nn.ModuleDict
    norm_after: str | None
    """The norm that this layer's output enters, directly or through additions."""
    readers: dict[str, Clip]
    """The layers that read this layer's output, behind that norm if there is one, and the clips in between."""
    roundings_behind: frozenset[str]
    """The plans under which something is rounded after this layer: a later layer's input, or a summand."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """The layer under the network's current view."""
        return self.compute(input)

    @final
    def compute(self, input: Tensor) -> Tensor:  # noqa: A002
        """The layer's one operation under the network's current view."""
        if self.state.stand_in is not None:
            return self.state.stand_in(self, input)
        if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != _NO_BACKWARD:
            raise InputError(
                f"{self.name} is computed again in the backward pass, where its view is over: switch gradient "
                "checkpointing off (model.gradient_checkpointing_disable() in transformers)"
            )
        plan = self.state.plan
        if plan is None:
            return self.in_full(input)
        precision = plan[self.name]
        if precision.is_dropped:
            return self.no_output(input)
        live = self.state.gradient is not Gradient.NORMS or plan.name not in self.roundings_behind
        bias = self.bias if live or self.bias is None else self.bias.detach()
        if precision == FULL:
            weight = self.full_weight()
            return self.as_summand(self.operate(input, weight if live else weight.detach(), bias))
        view = self.views[plan.name]
        assert isinstance(view, LayerQuantizers)
        z = self._quantized_input(view, input, precision)
        output = self.operate(z, self._quantized_weight(view, precision, live), bias)
        recorder = self.state.recorder
        if recorder is not None:
            if precision.activation is not None:  # first, since a layer may read its own output of an earlier call
                recorder.read(self.name, view.activation, precision.activation)
            if recorder.wants(self.name):
                self._record_twin(self.name, plan, z.detach(), output.detach())
            if recorder.candidates is not None:
                self._record_candidates(recorder.candidates, plan, view, input.detach(), output.detach())
        return self.as_summand(output)

    def in_full(self, input: Tensor) -> Tensor:  # noqa: A002
        """The layer's operation in full precision."""
        return self.operate(input, self.full_weight(), self.bias)

    def no_output(self, input: Tensor) -> Tensor:  # noqa: A002
        """Zeros in the shape of the layer's output, which is worked out without computing it."""
        with torch.no_grad():
            like = self._operate(input.to("meta"), self.rows.to("meta"), None)
        return input.new_zeros(like.shape, dtype=self.weight.dtype)

    @classmethod
    def allowed(cls, precision: Precision) -> Precision:
        """What the layer can have of a precision: indices that it reads are not rounded."""
        return Precision(precision.weight, None) if cls.weights_only and not precision.is_dropped else precision

    @property
    def quantizer(self) -> Quantizer | None:
        """A weight quantiser for its `full`, which has no state: any plan's will do. None if no plan quantises."""
        view = next(iter(self.views.values()), None)
        return view.weight if isinstance(view, LayerQuantizers) else None

    @property
    def rows(self) -> Tensor:
        """The weight with its output channels first: what quantisers and `operate` work on."""
        return self.weight

    def from_rows(self, rows: Tensor) -> Tensor:
        """The same numbers as the weight itself has them."""
        return rows

    def full_weight(self) -> Tensor:
        """The weight that the full-precision network uses, in rows."""
        return self.rows if self.quantizer is None else self.quantizer.full(self.rows)

    def low_weight(self, plan: BitPlan) -> Tensor:
        """The weight that the network uses under a plan, in rows."""
        view = self.views[plan.name]
        assert isinstance(view, LayerQuantizers)
        if plan[self.name].is_dropped:
            return torch.zeros_like(self.rows)
        return view.low_weight(self.rows, plan[self.name])

    def attach_quantizers_(self, plan: BitPlan) -> None:
        """Give the layer modules that round what it reads and, if it is added to others, what it makes."""
        if plan[self.name].is_dropped:
            if self.bias is not None:
                with torch.no_grad():
                    self.bias.zero_()
            return
        if self.quantizer is not None and (bits := plan[self.name].activation) is not None:
            view = self.views[plan.name]
            assert isinstance(view, LayerQuantizers)
            round_input(self, Rounding(copy.deepcopy(view.activation), bits))
        self.attach_sum_quantizer_(plan)

    @final
    def operate(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        """The convolution or product of an input and a weight in rows, in the numbers that autocast asks for."""
        return in_autocast(self._operate, input, weight, bias)

    def _operate(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        """The convolution or product itself."""
        raise NotImplementedError

    @property
    def channel_dim(self) -> int:
        """Which dimension of the output is its channels."""
        raise NotImplementedError

    @property
    def channels(self) -> int:
        """Of the output."""
        return len(self.rows)

    def operations(self, given: Tensor, output: Tensor) -> int:
        """Multiply-accumulates for this input."""
        return output.numel() // output.shape[self.channel_dim] * self.weight.numel()

    def _quantized_input(self, view: LayerQuantizers, input: Tensor, precision: Precision) -> Tensor:  # noqa: A002
        bits = precision.activation
        if bits is None:
            return input
        real = precise(input)
        if self.name in self.state.calibrating:
            view.activation.calibrate(real, bits)
        elif self.training:
            in_several = {"shared": True} if self.state.is_shared else {}  # own quantisers may know one process only
            view.activation.observe(real, bits, **in_several)
        if self.state.gradient is Gradient.EXACT:
            return view.activation.quantize(real.detach(), bits).to(input.dtype)
        return view.activation.straight_through(real, bits).to(input.dtype)

    def _quantized_weight(self, view: LayerQuantizers, precision: Precision, live: bool) -> Tensor:
        bits = precision.weight
        if bits is None:
            weight = view.weight.full(self.rows)
            return weight if live else weight.detach()
        if self.name in self.state.calibrating:
            view.weight.calibrate(self.rows, bits)
        if self.state.gradient is Gradient.STRAIGHT_THROUGH:
            return view.weight.straight_through(self.rows, bits)
        return view.weight.quantize(self.rows.detach(), bits)

    def _reader(self, plan: BitPlan) -> Reader | None:
        """Of the layers that round this one's output, the one with the fewest bits, whose rounding is the coarsest."""
        bits = {name: plan[name].activation for name in self.readers}
        rounding = sorted((its_bits, name) for name, its_bits in bits.items() if its_bits)
        if not rounding:
            return None
        _, name = rounding[0]
        return Reader(name, self.readers[name])

    def _record_twin(self, name: str, plan: BitPlan, z: Tensor, low: Tensor, shift: Tensor | None = None) -> None:
        """Compare layer(z, full(w)) with the low side; both z and the low side are constants.

        A low side that is not the layer's output under the plan is that output plus `shift`.
        """
        recorder = self.state.recorder
        assert recorder is not None
        if z.dim() + self.channel_dim > 0:  # else it is a single sample without a batch dimension
            z, low = recorder.sampled(z), recorder.sampled(low)
        full = self.operate(z, self.full_weight(), None if self.bias is None else self.bias.detach())
        recorder.compare(name, full, low, self.channel_dim, at_reader=False)
        reader = self._reader(plan)
        if self.norm_after is not None:
            recorder.defer(name, self.norm_after, full - low, shift, reader)
        else:
            recorder.hand_on(name, full, low, self.channel_dim, reader)

    def _record_candidates(
        self,
        candidates: Candidates,
        plan: BitPlan,
        view: LayerQuantizers,
        given: Tensor,
        output: Tensor,
    ) -> None:
        """Compare the layer at other precisions with full precision, on an input that is not rounded either.

        One layer is tried at a time, so what reads it rounds with its own bits under the plan, whatever the candidate.
        """
        for candidate in candidates.precisions:
            precision = self.allowed(candidate)
            if precision.is_dropped:
                read = given if self.weights_only else view.activation.full(given)
                nothing = torch.zeros_like(output)
                self._record_twin(candidate_name(self.name, candidate), plan, read, nothing, nothing - output)
                continue
            is_own = precision == plan[self.name]
            tried = view if is_own else candidates.quantizers(self.name, precision, given, self.rows)
            with torch.no_grad():
                low_input, low_weight = tried.low_input(given, precision), tried.low_weight(self.rows, precision)
                low = self.operate(low_input, low_weight, self.bias)
            full_input = given if precision.activation is None else tried.activation.full(given)
            self._record_twin(candidate_name(self.name, candidate), plan, full_input, low, low - output)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """A plain model's state has no quantisers: keep the ones that are here."""
        for quantizers, name in ((self.views, "views"), (self.sums, "sums")):
            for key, value in quantizers.state_dict(prefix=f"{prefix}{name}.").items():
                state_dict.setdefault(key, value)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @classmethod
    def convert_(cls, layer: nn.Module, name: str, state: ViewState) -> Self:
        """Make a plain layer precision-aware, in place. Its links and quantisers are the caller's to set."""
        layer.__class__ = cls
        assert isinstance(layer, cls)
        layer.name, layer.state, layer.views, layer.sums = name, state, nn.ModuleDict(), nn.ModuleDict()
        layer.norm_after, layer.readers, layer.roundings_behind = None, {}, frozenset()
        return layer

    def restore_(self) -> None:
        """Make it a plain layer again, in place."""
        for attribute in ("name", "state", "views", "sums", "norm_after", "readers", "roundings_behind"):
            delattr(self, attribute)
        self.__class__ = self.plain  # type: ignore[assignment]


_NO_BACKWARD = -1
"""What torch says while no backward pass is under way."""
