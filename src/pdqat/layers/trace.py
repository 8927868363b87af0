"""What one forward of the plain model on an example tells: order of the layers, and where their outputs go.

The way of a tensor is read off autograd's graph, so any module that runs can be traced, whatever its control flow.
Layers are first that read no other layer's output, and last that no other layer reads: by what they are for, rather
than by the order of their calls, so that all projections of a first attention and all heads of a detector are such.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.hooks import RemovableHandle

from pdqat.batches import tensors_in
from pdqat.errors import InputError
from pdqat.layers.branches import Branch, branches
from pdqat.layers.clip import Clip
from pdqat.layers.interface import Interface
from pdqat.layers.modes import WholeGraph, differentiable
from pdqat.layers.own_forward import OPERATIONS, Call, Operation, WatchOperations
from pdqat.layers.paths import LayerCall, added_into, norms_after, read_through, sources, streams_of


@dataclass
class Trace:
    """The calls of layers, and for each layer where its output goes."""

    calls: list[str] = field(default_factory=list)
    """Every call of a layer, in order."""
    norm_after: dict[str, str] = field(default_factory=dict)
    """Layer to the batch norm that its output enters, directly or through additions."""
    readers: dict[str, dict[str, Clip]] = field(default_factory=lambda: defaultdict(dict))
    """Layer or norm to the layers that read its values, directly or behind clips, and these clips."""
    first: set[str] = field(default_factory=set)
    """Layers that read no other layer's output."""
    last: set[str] = field(default_factory=set)
    """Layers whose output reaches the model's, and no other layer."""
    without_effect: set[str] = field(default_factory=set)
    """Layers whose output never reaches the tensor that is compared."""
    hidden: set[str] = field(default_factory=set)
    """Layers that the model computes under torch.no_grad: autograd's graph does not show what reads them."""
    operations: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    """Layer with a forward of its own to the different operations on its own weight and bias that it ends in."""
    called: set[str] = field(default_factory=set)
    """All modules that were called."""
    strays: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Module to torch's functions such as F.linear that it calls on weights itself, outside of any layer; a layer with
    a forward of its own to those on other tensors than its weight and bias."""
    streams: list[frozenset[str]] = field(default_factory=list)
    """Layers and norms whose outputs additions and means add up, directly or behind ReLU, clips at whole numbers or
    maximum pooling: those of one set add into the same sums. Sums with other terms are left out."""

    branches: dict[str, Branch] = field(default_factory=dict)
    """By layer that the network can do without, what goes with it."""
    output_shape: tuple[int, ...] = ()
    """Of the tensor that is compared, for the example."""

    @property
    def layers(self) -> list[str]:
        """In the order of their first call."""
        return list(dict.fromkeys(self.calls))


def trace(
    model: nn.Module,
    layers: Mapping[str, nn.Module],
    norms: Mapping[str, nn.Module],
    interface: Interface,
    example: Any,
    own_forward: Collection[str] = (),
    others: Mapping[str, nn.Module] | None = None,
) -> Trace:
    """Run `model` once, in evaluation mode and with its state untouched, and watch its layers and norms.

    Args:
        model: the plain module.
        layers: what to watch, by name.
        norms: the batch norms among its modules, by name.
        interface: how the model is called.
        example: a batch of inputs.
        own_forward: layers that are watched at the operation that their forward ends in, not at their own output.
        others: modules that do a layer's work and can't be quantised: what reads one is not first, what it reads not
            last.
    """
    watched = model, layers, norms, interface, example, own_forward, others or {}
    try:
        return _traced(*watched, WholeGraph())
    except InputError:  # a forward that writes into its parameters may do so under no_grad only
        return _traced(*watched, nullcontext())


def _traced(
    model: nn.Module,
    layers: Mapping[str, nn.Module],
    norms: Mapping[str, nn.Module],
    interface: Interface,
    example: Any,
    own_forward: Collection[str],
    others: Mapping[str, nn.Module],
    mode: AbstractContextManager[Any],
) -> Trace:
    """One forward in a mode."""
    result, made, ends = Trace(), dict[Any, LayerCall](), list[Any]()
    calls: list[LayerCall] = []
    at_a_norm: set[int] = set()

    def after_layer(name: str, given: Tensor, output: Tensor) -> None:
        ends.append(given.grad_fn)
        source = read_through(given.grad_fn, made)
        if source is not None:
            call, clip = source
            readers = result.readers[call.name]
            readers[name] = clip.widened(readers.get(name, clip))
        result.calls.append(name)
        calls.append(LayerCall(len(calls), name, reads=sources(given.grad_fn, made), given=given.grad_fn))
        if output.grad_fn is None:
            result.hidden.add(name)
            return
        made[output.grad_fn] = calls[-1]
        base = output._base  # an in-place function would cut a view off, not what it is a view of
        if base is not None and base.grad_fn is not None:
            made.setdefault(base.grad_fn, calls[-1])

    def after_norm(name: str, given: Tensor, output: Tensor) -> None:
        ends.append(given.grad_fn)
        terms = [call for call in added_into(given.grad_fn, made) if call.name in layers]
        entering = tuple(term for term in terms if term.number not in at_a_norm)
        calls.append(LayerCall(len(calls), name, entering, sources(given.grad_fn, made), given.grad_fn))
        at_a_norm.update(term.number for term in terms)
        if output.grad_fn is not None:
            made[output.grad_fn] = calls[-1]

    def after_other(name: str, given: Any, output: Any) -> None:
        read = (sources(tensor.grad_fn, made) for tensor in tensors_in(given))
        calls.append(LayerCall(len(calls), name, reads=set().union(*read)))
        made.update({tensor.grad_fn: calls[-1] for tensor in tensors_in(output) if tensor.grad_fn is not None})

    running: list[str] = []

    def after_operation(call: Call, output: Tensor) -> None:
        inside = running[-1] if running else ""
        layer = layers.get(inside)
        for name in own_forward:
            if name in running and not (name == inside and call.is_of(layers[name])):
                result.strays[name].add(OPERATIONS[call.operation.function])
        if layer is None:
            result.strays[inside].add(OPERATIONS[call.operation.function])
        elif inside in own_forward and call.is_of(layer):
            if call.operation not in result.operations[inside]:
                result.operations[inside].append(call.operation)
            after_layer(inside, call.input, output)

    at_output = {name: layer for name, layer in layers.items() if name not in own_forward}
    with (
        _watched(at_output, after_layer),
        _watched(norms, after_norm),
        _watched(others, after_other, whole=True),
        _running(model, running, result.called),
        WatchOperations(after_operation),
        differentiable(model),
        parametrize.cached(),  # so that a computed weight is the same tensor wherever it is asked for
        mode,
    ):
        args, kwargs = interface.arguments(example)
        try:
            returned = model(*args, **kwargs)
        except Exception as error:
            raise InputError(f"the model can't process the example input ({describe(example)}): {error}") from error
    output = interface.compared(returned)
    result.norm_after = norms_after(calls)
    can_round = {node: call for node, call in made.items() if call.name in layers or call.name in norms}
    result.streams = streams_of([*ends, output.grad_fn], can_round, norms)
    _mark_ends(result, calls, [call for call in calls if call.name not in norms], sources(output.grad_fn, made))
    if not result.hidden:
        returned_nodes = [tensor.grad_fn for tensor in tensors_in(returned)] + [output.grad_fn]
        result.branches = branches(returned_nodes, made, calls, layers, norms)
    result.output_shape = tuple(output.shape)
    return result


def describe(example: Any) -> str:
    """The shape of an example, for messages."""
    if isinstance(example, Tensor):
        return f"shape {tuple(example.shape)}"
    if isinstance(example, Mapping):
        return ", ".join(f"{name}: {describe(part)}" for name, part in example.items())
    if isinstance(example, tuple | list):
        return ", ".join(describe(part) for part in example)
    return type(example).__name__


def _mark_ends(result: Trace, calls: list[LayerCall], of_layers: list[LayerCall], reaching: set[LayerCall]) -> None:
    """Sort layers by what their calls read and what reads them, directly or through norms."""
    behind_norms: dict[LayerCall, set[LayerCall]] = {}
    layers = set(of_layers)
    for call in calls:  # in order, so that what a call reads is known
        sources = set[LayerCall]()
        for source in call.reads:
            sources |= {source} if source in layers else behind_norms[source]
        behind_norms[call] = sources
    has_effect = set[LayerCall]()
    waiting = list(reaching)
    while waiting:
        call = waiting.pop()
        if call not in has_effect:
            has_effect.add(call)
            waiting.extend(call.reads)
    read = set().union(*(behind_norms[call] for call in of_layers if call in has_effect))
    result.first = {call.name for call in of_layers if not behind_norms[call]}
    result.last = {call.name for call in of_layers if call in has_effect and call not in read}
    result.without_effect = {call.name for call in of_layers} - {call.name for call in of_layers if call in has_effect}


@contextmanager
def _watched(modules: Mapping[str, nn.Module], watch: Any, whole: bool = False) -> Iterator[None]:
    """Call `watch` with the name, the input (`whole`: all that is given) and the output of every call of a module."""
    handles: list[RemovableHandle] = []
    for name, module in modules.items():

        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, name: str = name) -> None:
            first = args[0] if args else kwargs.get("input")
            watch(name, (args, kwargs) if whole else first, output)

        handles.append(module.register_forward_hook(hook, with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _running(model: nn.Module, names: list[str], called: set[str]) -> Iterator[None]:
    """Keep the names of the modules that are being computed, the innermost last, and of all that were called."""
    handles: list[RemovableHandle] = []

    def begin(name: str) -> None:
        names.append(name)
        called.add(name)

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda *_, name=name: begin(name)))
        handles.append(module.register_forward_hook(lambda *_: _drop_last(names), always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _drop_last(names: list[str]) -> None:
    names.pop()
