"""`prepare`: any module becomes a precision-aware network, in place."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pdqat.batches import tensors_in
from pdqat.errors import InputError
from pdqat.layers.choosing import Candidates, PlanLike, plans_for
from pdqat.layers.interface import Interface, OutputChoice
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.modes import evaluating
from pdqat.layers.network import Network, Preparation, call_every_layer
from pdqat.layers.norm import NORMS, PrecisionNorm
from pdqat.layers.own_forward import OwnForward
from pdqat.layers.projection import join_, split_
from pdqat.layers.rounding import Rounding
from pdqat.layers.state import ViewState
from pdqat.layers.trace import Trace, trace
from pdqat.precision import BitPlan, Precision
from pdqat.quantizers import PowerOfTwo, Scheme
from pdqat.quantizers import scheme as find_scheme


def prepare(
    model: nn.Module,
    example: Any,
    bits: PlanLike | Sequence[PlanLike] = 2,
    *,
    layers: Mapping[str, str | int | Precision] | None = None,
    ends: str | int | Precision = "full",
    quantizer: str | Scheme = "uniform",
    output: OutputChoice | None = None,
    tied_norms: bool = True,
    integer_sums: bool = False,
) -> Network:
    """Make a model precision-aware, in place. In full precision it computes what it did before.

    Args:
        model: any module; its layers change their class and keep their Parameters. Quantised are Conv, ConvTranspose,
            Linear and Embedding (weights only), their subclasses, attentions, and Hugging Face's Conv1D.
        example: a batch of real inputs, as the training loader has them: a tensor; a tuple or list of tensors, the
            model's arguments; or a dictionary, its arguments by name. It shows the order of the layers, and lets
            quantisers set their scales. The network keeps it, for plans with other bits.
        bits: a precision or a BitPlan, or several: one plan each.
        layers: precision per layer name or glob pattern. First layers (those that read no other's output) and last
            ones (those that no other reads) have the precision `ends` unless named here.
        ends: the precision of first and last layers; with 8 a deployed network computes in integers throughout.
        quantizer: a name of `pdqat.quantizers.SCHEMES`, or a Scheme. "uniform" keeps the weights as they are in full
            precision; "dorefa" squashes them by tanh, and clips activations to [0, 1], for models trained with it.
        output: which tensor of what the model returns is compared and given to the loss: a position, a key, or a
            function; by default the obvious one. `net(...)` returns that tensor.
        tied_norms: plans share the full-precision batch norms' affine parameters, so that full precision is the same
            network without rounding; only statistics are their own.
        integer_sums: under plans, what residual additions and means of images add up is rounded to 8 bits of one step,
            as deployment in integers needs it.

    Returns:
        The network. `print(net.coverage)` shows what is quantised, and why the rest is not.

    Examples:
        >>> net = prepare(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)), torch.rand(2, 4), bits=2)
        >>> list(net.layers), net.left_alone["0"]
        (['1'], 'first layer: full precision unless a rule names it')
    """
    _check_model(model)
    _check_example(example)
    requested = list(bits) if isinstance(bits, Sequence) and not isinstance(bits, str) else [bits]
    if not isinstance(layers, Mapping | None):
        raise InputError(
            f"layers are precisions by name or pattern, such as {{'0': 8, '*.conv1': 'full'}}, not {layers!r}"
        )
    rules = {pattern: Precision.parse(precision) for pattern, precision in (layers or {}).items()}
    scheme, interface = find_scheme(quantizer), Interface.of(model, example, output)
    split_(model)
    try:
        candidates = Candidates.of(model)
        norms = {name: module for name, module in model.named_modules() if type(module) in NORMS}
        seen = trace(model, candidates.modules, norms, interface, example, candidates.own_forward, candidates.others)
        candidates.settle(seen)
        plans = plans_for(requested, seen, rules, Precision.parse(ends), candidates)
    except BaseException:
        join_(model)
        raise
    preparation = Preparation(
        example,
        next(model.parameters()).dtype,
        scheme,
        interface,
        seen.output_shape,
        tied_norms,
        integer_sums,
        seen.branches,
    )
    net = Network(model, ViewState(), plans, candidates.left_alone, preparation)
    try:
        _convert(net, candidates, norms, seen)
    except BaseException:
        net.restore()
        raise
    return net


def _check_model(model: nn.Module) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"a model is a torch.nn.Module, not a {type(model).__name__}")
    kinds = {kind.__name__ for module in model.modules() for kind in type(module).__mro__}
    if kinds & {"ScriptModule", "OptimizedModule"}:  # by name: importing torch's compiler takes seconds
        raise InputError(
            "the model is compiled or scripted; give the module that it was made of, and compile in training instead "
            "(fit(compile=True))"
        )
    if any(isinstance(module, PrecisionLayer | PrecisionNorm) for module in model.modules()):
        raise InputError("the model is prepared already; restore() gives the plain module back")
    if any(isinstance(module, Rounding) for module in model.modules()):
        raise InputError("the model is in low precision already, as restore(plan=...) gave it; prepare the plain one")
    if next(model.parameters(), None) is None:
        raise InputError("the model has nothing to quantise: it has no parameters")


def _check_example(example: Any) -> None:
    for tensor in tensors_in(example):
        if tensor.numel() == 0:
            raise InputError(f"the example input is empty: it has a tensor of shape {tuple(tensor.shape)}")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(
                "the example input has values that are not numbers or infinite; give a batch of real inputs"
            )


def _convert(net: Network, candidates: Candidates, norms: Mapping[str, nn.Module], seen: Trace) -> None:
    """Change the classes of layers and norms, and give them their quantisers, set on the example."""
    how, plans = net.preparation, list(net.plans.values())
    last_of = {norm: layer for layer, branch in how.branches.items() for norm in branch.norms}
    for name, module in norms.items():
        norm = NORMS[type(module)].convert_(module, name, net.state)
        norm.ends_branch_of = last_of.get(name)
        for plan in plans:
            norm.add_view(plan.name, how.tied_norms)
    with evaluating(net.model):  # spectral norms change with every look at a weight in training mode
        for name, module in candidates.modules.items():
            layer = candidates.kinds[name].convert_(module, name, net.state)
            if isinstance(layer, OwnForward):
                (layer.operation,) = seen.operations[name]
            layer.norm_after = seen.norm_after.get(name)
            layer.readers = dict(seen.readers[layer.norm_after or name])
            layer.roundings_behind = frozenset(plan.name for plan in plans if _rounds_after(name, plan, seen.calls))
            if name in plans[0].precisions:
                layer.views.update({plan.name: LayerQuantizers(how.scheme) for plan in plans})
                layer.views.to(layer.weight.device, layer.weight.dtype)
    if how.integer_sums:
        _round_sums(net, seen.streams)
    for module in net.model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            module.register_forward_pre_hook(call_every_layer)
    aware = [module for module in net.model.modules() if isinstance(module, PrecisionLayer | PrecisionNorm)]
    for module in aware:
        module.views.train(module.training)
        module.sums.train(module.training)
    calibrate(net, [module.name for module in aware])
    for module in aware:
        if not all(bool(scale.isfinite().all()) for scale in module.views.buffers()):
            raise InputError(f"{module.name!r} is given values that are not numbers or infinite for the example input")


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
    return name not in calls or any(plan[later].activation for later in calls[calls.index(name) + 1 :])


@torch.no_grad()
def calibrate(net: Network, names: Collection[str]) -> None:
    """Show the quantisers of these layers and norms the example once under each plan, in evaluation mode."""
    example = net.example
    with evaluating(net):
        for plan in net.plans:
            with net.under(plan), net.state.calibration(names):
                net.call(example)
