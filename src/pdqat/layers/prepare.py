"""`prepare`: any module becomes a precision-aware network, in place."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pdqat.batches import tensors_in
from pdqat.errors import InputError
from pdqat.layers.layer import LAYERS, PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.network import Network, Preparation, call_every_layer
from pdqat.layers.norm import NORMS, PrecisionNorm
from pdqat.layers.rounding import Rounding
from pdqat.layers.state import ViewState
from pdqat.layers.trace import call_model, evaluating, trace
from pdqat.precision import FULL, BitPlan, Precision
from pdqat.quantizers import PowerOfTwo, Scheme
from pdqat.quantizers import scheme as find_scheme
from pdqat.rules import check_all_match, resolve

PlanLike = str | int | Precision | BitPlan


def prepare(
    model: nn.Module,
    example: Any,
    bits: PlanLike | Sequence[PlanLike] = 2,
    *,
    layers: Mapping[str, str | int | Precision] | None = None,
    quantizer: str | Scheme = "dorefa",
    tied_norms: bool = False,
    integer_sums: bool = False,
) -> Network:
    """Make a model precision-aware, in place.

    Args:
        model: any module; its Conv, Linear and BatchNorm layers change their class and keep their Parameters.
        example: a batch of real inputs; shows the order of the layers, and lets quantisers with a scale set it. The
            network keeps it, for plans with other bits.
        bits: a precision or a BitPlan, or several: one plan each.
        layers: precision per layer name or glob pattern; the first and the last layer are "full" unless named here.
        quantizer: a name of `pdqat.quantizers.SCHEMES`, or a Scheme.
        tied_norms: plans share the full-precision batch norms' affine parameters; only statistics are their own.
        integer_sums: under plans, what residual additions add is rounded to 8 bits of one step, as deployment needs it.

    Example:
        >>> net = prepare(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)), torch.rand(2, 4), bits=2)
        >>> list(net.layers), net.left_alone["0"]
        (['1'], 'first layer: full precision unless a rule names it')
    """
    if any(isinstance(module, PrecisionLayer | PrecisionNorm) for module in model.modules()):
        raise InputError("the model is prepared already; restore() gives the plain module back")
    if any(isinstance(module, Rounding) for module in model.modules()):
        raise InputError("the model is in low precision already, as restore(plan=...) gave it; prepare the plain one")
    for tensor in tensors_in(example):
        if tensor.numel() == 0:
            raise InputError(f"the example input is empty: it has a tensor of shape {tuple(tensor.shape)}")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(
                "the example input has values that are not numbers or infinite; give a batch of real inputs"
            )
    requested = list(bits) if isinstance(bits, Sequence) and not isinstance(bits, str) else [bits]
    rules = {pattern: Precision.parse(precision) for pattern, precision in (layers or {}).items()}
    swappable, left_alone = _swappable(model)
    norms = {name: module for name, module in model.named_modules() if type(module) in NORMS}
    seen = trace(model, swappable, norms, example)
    left_alone |= {name: "not called with the example input" for name in swappable if name not in seen.calls}
    plans = _plans(requested, seen.layers, rules, left_alone)

    scheme = find_scheme(quantizer)
    dtype = next(model.parameters()).dtype
    preparation = Preparation(example, dtype, scheme, tied_norms, integer_sums)
    net = Network(model, ViewState(), plans, left_alone, preparation)
    try:
        for name, module in norms.items():
            norm = NORMS[type(module)].convert_(module, name, net.state)
            for plan in plans:
                norm.add_view(plan.name, tied_norms)
        for name, module in swappable.items():
            layer = LAYERS[type(module)].convert_(module, name, net.state)
            layer.norm_after = seen.norm_after.get(name)
            layer.readers = frozenset(seen.readers[layer.norm_after or name])
            layer.roundings_behind = frozenset(plan.name for plan in plans if _rounds_after(name, plan, seen.calls))
            if name in plans[0].precisions:
                layer.views.update({plan.name: LayerQuantizers(scheme) for plan in plans})
                layer.views.to(layer.weight.device, layer.weight.dtype)
        if integer_sums:
            _round_sums(net, seen.streams)
        for module in model.modules():
            if isinstance(module, nn.TransformerEncoderLayer):
                module.register_forward_pre_hook(call_every_layer)
        aware = [module for module in model.modules() if isinstance(module, PrecisionLayer | PrecisionNorm)]
        for module in aware:
            module.views.train(module.training)
            module.sums.train(module.training)
        calibrate(net, [module.name for module in aware])
    except BaseException:
        net.restore()
        raise
    return net


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
    requested: Sequence[PlanLike], layers: Sequence[str], rules: Mapping[str, Precision], left_alone: dict[str, str]
) -> list[BitPlan]:
    """Resolve each requested plan to a precision per quantised layer; all plans name the same layers."""
    if not requested:
        raise InputError("at least one precision is needed, for example bits=2")
    check_all_match(rules, layers, "the layer rule")
    if rules and all(isinstance(request, BitPlan) for request in requested):
        raise InputError("layer rules are given beside plans that name each layer's precision; give one or the other")
    ends = {name: where for where, name in (("last", layers[-1]), ("first", layers[0]))} if layers else {}
    resolved: list[tuple[str, dict[str, Precision]]] = []
    for request in requested:
        if isinstance(request, BitPlan):
            unknown = [name for name in request.precisions if name not in layers]
            if unknown:
                raise InputError(f"plan {request.name!r} names the layer {unknown[0]!r}, which the model does not have")
            resolved.append((request.name, {name: request[name] for name in layers}))
        else:
            uniform = BitPlan.uniform(request, layers)
            defaults = {name: FULL if name in ends else uniform[name] for name in layers}
            resolved.append((uniform.name, {name: resolve(rules, name, defaults[name]) for name in layers}))
    named = {name for plan in requested if isinstance(plan, BitPlan) for name in plan.precisions}
    quantized = [name for name in layers if name in named or any(plan[name] != FULL for _, plan in resolved)]
    if not quantized or not any(plan[name] != FULL for _, plan in resolved for name in quantized):
        raise InputError(
            "the model has nothing to quantise: no Conv or Linear layer is left in low precision "
            f"(left alone: {', '.join(left_alone) or 'nothing'}; first and last layer: {', '.join(ends) or 'none'})"
        )
    for name in layers:
        if name not in quantized:
            by_rule = resolve(rules, name, None) is not None
            at_end = name in ends and not by_rule
            end_reason = f"{ends.get(name)} layer: full precision unless a rule names it"
            left_alone[name] = (
                end_reason if at_end else "full precision by rule" if by_rule else "not named by the plan"
            )
    plans = [BitPlan(name, {layer: precisions[layer] for layer in quantized}) for name, precisions in resolved]
    names = [plan.name for plan in plans]
    for name in names:
        if hasattr(nn.ModuleDict(), name):
            raise InputError(f"a plan can't be called {name!r}: torch's modules use that name themselves")
    if len(set(names)) < len(names):
        raise InputError(f"each plan needs a name of its own, not {', '.join(names)}")
    return plans


def _round_sums(net: Network, streams: Iterable[frozenset[str]]) -> None:
    """Give all summands of a stream the same quantiser, one for each plan."""
    modules = dict(net.model.named_modules())
    device = next(net.parameters()).device
    for stream in streams:
        quantizers = {plan: PowerOfTwo().to(device) for plan in net.plans}
        for name in stream:
            summand = modules[name]
            assert isinstance(summand, PrecisionLayer | PrecisionNorm)
            summand.sums.update(quantizers)
    for layer in (module for module in modules.values() if isinstance(module, PrecisionLayer)):
        if layer.sums or (layer.norm_after is not None and modules[layer.norm_after].sums):
            layer.roundings_behind = frozenset(net.plans)


def _rounds_after(name: str, plan: BitPlan, calls: Sequence[str]) -> bool:
    """Whether some call after the layer's first one rounds its input."""
    return name not in calls or any(plan[later].activation is not None for later in calls[calls.index(name) + 1 :])


@torch.no_grad()
def calibrate(net: Network, names: Collection[str]) -> None:
    """Show the quantisers of these layers and norms the example once under each plan, in evaluation mode."""
    example = net.example
    with evaluating(net):
        for plan in net.plans:
            with net.under(plan), net.state.calibration(names):
                call_model(net, example)
