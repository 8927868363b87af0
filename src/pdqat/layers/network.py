"""Network: one set of weights, seen in full precision or under a plan. `prepare` makes it from any module."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from pdqat.errors import InputError
from pdqat.layers.block import BlockTwin
from pdqat.layers.layer import LAYERS, LayerQuantizers, PrecisionLayer
from pdqat.layers.norm import NORMS, PrecisionNorm
from pdqat.layers.recorder import Recorder
from pdqat.layers.state import Gradient, ViewState
from pdqat.layers.trace import call_model, trace
from pdqat.precision import FULL, BitPlan, Precision
from pdqat.quantizers import Scheme
from pdqat.quantizers import scheme as find_scheme
from pdqat.rules import check_all_match, resolve

PlanLike = str | int | Precision | BitPlan


class Network(nn.Module):
    """A precision-aware model.

    Called as it is, it computes in full precision; `with net.under("2-bit"): net(x)` computes under that plan. Its
    state_dict has the plain model's keys, and what the plans add to them.
    """

    def __init__(self, model: nn.Module, state: ViewState, plans: Sequence[BitPlan], left_alone: Mapping[str, str]):
        super().__init__()
        self.model = model
        self.state = state
        self.plans = {plan.name: plan for plan in plans}
        self.left_alone = dict(left_alone)
        """What `prepare` did not quantise, with the reason."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model under the current view."""
        return self.model(*args, **kwargs)

    @contextmanager
    def under(
        self, plan: str | BitPlan | None, gradient: Gradient = Gradient.EXACT, recorder: Recorder | None = None
    ) -> Iterator["Network"]:
        """Compute under a plan, given by name or as one of `plans`; None is full precision."""
        name = plan.name if isinstance(plan, BitPlan) else plan
        if name is not None and name not in self.plans:
            raise InputError(f"the network has no plan {name!r}; it was prepared with {', '.join(self.plans)}")
        with self.state.under(None if name is None else self.plans[name], gradient, recorder):
            yield self

    @property
    def layers(self) -> dict[str, PrecisionLayer]:
        """The quantised layers by name, in the order in which the model calls them."""
        found = {each.name: each for each in self.model.modules() if isinstance(each, PrecisionLayer)}
        names = next(iter(self.plans.values())).precisions if self.plans else ()
        return {name: found[name] for name in names}

    def watch_block(self, name: str) -> None:
        """Let the submodule of that name be compared with its full-precision twin."""
        modules = dict(self.model.named_modules())
        inside = [
            each for key, each in modules.items() if key.startswith(f"{name}.") and isinstance(each, PrecisionLayer)
        ]
        if not inside or not name:
            raise InputError(f"block {name!r} is not a submodule with layers in it")
        hooks = modules[name]._forward_hooks.values()
        if not any(isinstance(hook, BlockTwin) for hook in hooks):
            twin = BlockTwin(name, inside[-1].channel_dim, self.state)
            modules[name].register_forward_hook(twin, with_kwargs=True)

    def restore(self, bake: bool = False) -> nn.Module:
        """Give the plain module back, with the same Parameters and the full-precision view's norms.

        With `bake` the full-precision weights (`quantizer.full`) are written into the Parameters first, so that the
        plain module computes what this network computes in full precision.
        """
        if bake:
            self._bake()
        for module in list(self.model.modules()):
            for key, hook in list(module._forward_hooks.items()):
                if isinstance(hook, BlockTwin):
                    del module._forward_hooks[key]
                    module._forward_hooks_with_kwargs.pop(key, None)
            for key, pre_hook in list(module._forward_pre_hooks.items()):
                if pre_hook is _call_every_layer:
                    del module._forward_pre_hooks[key]
            if isinstance(module, PrecisionLayer | PrecisionNorm):
                module.restore_()
        return self.model

    @torch.no_grad()
    def _bake(self) -> None:
        """Write the full-precision weights, each Parameter's once however many layers share it."""
        quantized = [each for each in self.model.modules() if isinstance(each, PrecisionLayer) and each.quantizer]
        full_weights = {layer.weight: layer.full_weight() for layer in quantized}
        for name, module in self.model.named_modules():
            if module not in quantized and any(each in full_weights for each in module.parameters(recurse=False)):
                raise InputError(f"{name!r} shares the weight of a quantised layer, which can't be baked for both")
        for weight, full in full_weights.items():
            weight.copy_(full)

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """The model's state, without a prefix of the network's own."""
        return self.model.state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for key in [key for key in state_dict if key.startswith(prefix)]:
            state_dict[f"{prefix}model.{key[len(prefix) :]}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def prepare(
    model: nn.Module,
    example: Any,
    bits: PlanLike | Sequence[PlanLike] = 2,
    *,
    layers: Mapping[str, str | int | Precision] | None = None,
    quantizer: str | Scheme = "dorefa",
    tied_norms: bool = False,
) -> Network:
    """Make a model precision-aware, in place.

    example     a batch of real inputs: shows the order of the layers, and lets quantisers with a scale set it
    bits        a precision or a BitPlan, or several: one plan each
    layers      precision per layer name or glob pattern; the first and the last layer are "full" unless named here
    quantizer   a name of `pdqat.quantizers.SCHEMES`, or a Scheme
    tied_norms  plans share the full-precision batch norms' affine parameters; only statistics are their own

    >>> net = prepare(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)), torch.rand(2, 4), bits=2)
    >>> list(net.layers), net.left_alone["0"]
    (['1'], 'first layer: full precision unless a rule names it')
    """
    if any(isinstance(module, PrecisionLayer | PrecisionNorm) for module in model.modules()):
        raise InputError("the model is prepared already; restore() gives the plain module back")
    requested = list(bits) if isinstance(bits, Sequence) and not isinstance(bits, str) else [bits]
    rules = {pattern: Precision.parse(precision) for pattern, precision in (layers or {}).items()}
    swappable, left_alone = _swappable(model)
    norms = {name: module for name, module in model.named_modules() if type(module) in NORMS}
    seen = trace(model, swappable, norms, example)
    for name in swappable.keys() - set(seen.order):
        left_alone[name] = "not called with the example input"
    plans = _plans(requested, seen.order, rules, left_alone)

    net = Network(model, ViewState(), plans, left_alone)
    scheme = find_scheme(quantizer)
    try:
        for name, module in norms.items():
            norm = NORMS[type(module)].convert_(module, name, net.state)
            for plan in plans:
                norm.add_view(plan.name, tied_norms)
        for name, module in swappable.items():
            layer = LAYERS[type(module)].convert_(module, name, net.state)
            layer.norm_after = seen.norm_after.get(name)
            layer.readers = frozenset(seen.readers[layer.norm_after or name])
            layer.roundings_behind = frozenset(plan.name for plan in plans if _rounds_after(name, plan, seen.order))
            if name in plans[0].precisions:
                layer.views.update({plan.name: LayerQuantizers(scheme) for plan in plans})
                layer.views.to(layer.weight.device, layer.weight.dtype)
        for module in model.modules():
            if isinstance(module, nn.TransformerEncoderLayer):
                module.register_forward_pre_hook(_call_every_layer)
        _calibrate(net, example)
    except BaseException:
        net.restore()
        raise
    return net


def _call_every_layer(module: nn.Module, args: tuple[Any, ...]) -> None:
    """A hook that does nothing, so that torch's encoder layer does not read its layers' weights past them."""


def _swappable(model: nn.Module) -> tuple[dict[str, nn.Module], dict[str, str]]:
    """The layers that can become precision-aware, and what can't with the reason."""
    swappable: dict[str, nn.Module] = {}
    left_alone: dict[str, str] = {}
    inside_attention: tuple[str, ...] = ()
    for name, module in model.named_modules():
        kind = type(module)
        if isinstance(module, nn.MultiheadAttention):
            left_alone[name] = (
                "MultiheadAttention computes with packed projections, not with layers that can be swapped"
            )
            inside_attention += (f"{name}." if name else "",)
        elif name.startswith(inside_attention):
            continue
        elif kind in LAYERS:
            swappable[name] = module
        elif kind not in NORMS and isinstance(module, (*LAYERS, *NORMS)):
            left_alone[name] = f"{kind.__name__} is a subclass with a forward of its own"
        elif any(parameter.dim() > 1 for parameter in module.parameters(recurse=False)):
            left_alone[name] = f"{kind.__name__} is not a kind of layer that pdqat quantises"
    return swappable, left_alone


def _plans(
    requested: Sequence[PlanLike], order: Sequence[str], rules: Mapping[str, Precision], left_alone: dict[str, str]
) -> list[BitPlan]:
    """Resolve each requested plan to a precision per quantised layer; all plans name the same layers."""
    if not requested:
        raise InputError("at least one precision is needed, for example bits=2")
    check_all_match(rules, order, "the layer rule")
    ends = {name: where for where, name in (("last", order[-1]), ("first", order[0]))} if order else {}
    resolved: list[tuple[str, dict[str, Precision]]] = []
    for each in requested:
        if isinstance(each, BitPlan):
            unknown = [name for name in each.precisions if name not in order]
            if unknown:
                raise InputError(f"plan {each.name!r} names the layer {unknown[0]!r}, which the model does not have")
            resolved.append((each.name, {name: each[name] for name in order}))
        else:
            uniform = BitPlan.uniform(each, order)
            defaults = {name: FULL if name in ends else uniform[name] for name in order}
            resolved.append((uniform.name, {name: resolve(rules, name, defaults[name]) for name in order}))
    named = {name for each in requested if isinstance(each, BitPlan) for name in each.precisions}
    quantized = [name for name in order if name in named or any(plan[name] != FULL for _, plan in resolved)]
    if not quantized or not any(plan[name] != FULL for _, plan in resolved for name in quantized):
        raise InputError(
            "the model has nothing to quantise: no Conv or Linear layer is left in low precision "
            f"(left alone: {', '.join(left_alone) or 'nothing'}; first and last layer: {', '.join(ends) or 'none'})"
        )
    for name in order:
        if name not in quantized:
            by_rule = resolve(rules, name, None) is not None
            at_end = name in ends and not by_rule
            end_reason = f"{ends.get(name)} layer: full precision unless a rule names it"
            left_alone[name] = end_reason if at_end else "full precision by rule"
    plans = [BitPlan(name, {layer: precisions[layer] for layer in quantized}) for name, precisions in resolved]
    names = [plan.name for plan in plans]
    for name in names:
        if hasattr(nn.ModuleDict(), name):
            raise InputError(f"a plan can't be called {name!r}: torch's modules use that name themselves")
    if len(set(names)) < len(names):
        raise InputError(f"each plan needs a name of its own, not {', '.join(names)}")
    return plans


def _rounds_after(name: str, plan: BitPlan, order: Sequence[str]) -> bool:
    return name not in order or any(plan[later].activation is not None for later in order[order.index(name) + 1 :])


@torch.no_grad()
def _calibrate(net: Network, example: Any) -> None:
    """Show each plan's quantisers the example once, in evaluation mode."""
    modes = {module: module.training for module in net.modules()}
    net.eval()
    try:
        for plan in net.plans:
            with net.under(plan), net.state.calibration():
                call_model(net, example)
    finally:
        for module, mode in modes.items():
            module.training = mode
