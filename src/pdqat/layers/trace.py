"""What one forward of the plain model on an example tells: order of the layers, and where their outputs go.

The way of a tensor is read off autograd's graph, so any module that runs can be traced, whatever its control flow.
Layers are first that read no other layer's output, and last that no other layer reads: by what they are for, rather
than by the order of their calls, so that all projections of a first attention and all heads of a detector are such.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from pdqat.errors import InputError
from pdqat.layers.interface import Interface
from pdqat.layers.own_forward import OPERATIONS, Call, Operation, WatchOperations


@dataclass
class Trace:
    """The calls of layers, and for each layer where its output goes."""

    calls: list[str] = field(default_factory=list)
    """Every call of a layer, in order."""
    norm_after: dict[str, str] = field(default_factory=dict)
    """Layer to the batch norm that its output enters, directly or through additions."""
    readers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Layer or norm to the layers that read its output, directly or through functions of one tensor."""
    first: set[str] = field(default_factory=set)
    """Layers that read no other layer's output."""
    last: set[str] = field(default_factory=set)
    """Layers whose output reaches the model's, and no other layer."""
    without_effect: set[str] = field(default_factory=set)
    """Layers whose output never reaches the tensor that is compared."""
    operations: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    """Layer with a forward of its own to the different operations that it ends in."""
    called: set[str] = field(default_factory=set)
    """All modules that were called."""
    strays: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Module to torch's functions that it calls on weights itself, such as F.linear, outside of any layer."""
    streams: list[frozenset[str]] = field(default_factory=list)
    """Layers and norms whose outputs are added up, directly or behind ReLU, clip at 0 and 1 or maximum pooling: those
    of one set add into the same sums. Sums with other terms are left out."""

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
) -> Trace:
    """Run `model` once, in evaluation mode and with its state untouched, and watch its layers and norms.

    Args:
        model: the plain module.
        layers: what to watch, by name.
        norms: the batch norms among its modules, by name.
        interface: how the model is called.
        example: a batch of inputs.
        own_forward: layers that are watched at the operation that their forward ends in, not at their own output.
    """
    result, made, ends = Trace(), dict[Any, _Call](), list[Any]()
    calls: list[_Call] = []
    at_a_norm: set[int] = set()

    def after_layer(name: str, given: Tensor, output: Tensor) -> None:
        ends.append(given.grad_fn)
        source = _read_through(given.grad_fn, made)
        if source is not None:
            result.readers[source.name].add(name)
        result.calls.append(name)
        calls.append(_Call(len(calls), name, reads=_sources(given.grad_fn, made)))
        made[output.grad_fn] = calls[-1]

    def after_norm(name: str, given: Tensor, output: Tensor) -> None:
        ends.append(given.grad_fn)
        terms = [call for call in _added_into(given.grad_fn, made) if call.name in layers]
        entering = tuple(term for term in terms if term.number not in at_a_norm)
        calls.append(_Call(len(calls), name, entering, _sources(given.grad_fn, made)))
        at_a_norm.update(term.number for term in terms)
        made[output.grad_fn] = calls[-1]

    running: list[str] = []

    def after_operation(call: Call, output: Tensor) -> None:
        inside = running[-1] if running else ""
        layer = layers.get(inside)
        if layer is None or layer.weight.shape != call.weight.shape:
            result.strays[inside].add(OPERATIONS[call.operation.function])
        elif inside in own_forward:
            if call.operation not in result.operations[inside]:
                result.operations[inside].append(call.operation)
            after_layer(inside, call.input, output)

    at_output = {name: layer for name, layer in layers.items() if name not in own_forward}
    with (
        _watched(at_output, after_layer),
        _watched(norms, after_norm),
        _running(model, running, result.called),
        WatchOperations(after_operation),
        _differentiable(model),
    ):
        args, kwargs = interface.arguments(example)
        try:
            returned = model(*args, **kwargs)
        except Exception as error:
            raise InputError(f"the model can't process the example input ({describe(example)}): {error}") from error
    output = interface.compared(returned)
    result.norm_after = _settled(calls)
    result.streams = _streams([*ends, output.grad_fn], made)
    _mark_ends(result, calls, [call for call in calls if call.name in layers], _sources(output.grad_fn, made))
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


def _mark_ends(result: Trace, calls: "list[_Call]", of_layers: "list[_Call]", reaching: "set[_Call]") -> None:
    """Sort layers by what their calls read and what reads them, directly or through norms."""
    behind_norms: dict[_Call, set[_Call]] = {}
    layers = set(of_layers)
    for call in calls:  # in order, so that what a call reads is known
        sources = set[_Call]()
        for source in call.reads:
            sources |= {source} if source in layers else behind_norms[source]
        behind_norms[call] = sources
    has_effect = set[_Call]()
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


def _sources(node: Any, made: "Mapping[Any, _Call]") -> "set[_Call]":
    """The calls from which a tensor was made, without a call in between."""
    nodes, seen, sources = [node], set(), set[_Call]()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node in made:
            sources.add(made[node])
        else:
            nodes.extend(parent for parent, _ in node.next_functions)
    return sources


@dataclass(frozen=True)
class _Call:
    """One call of a layer or norm; for a norm, the layer calls whose outputs enter a norm here for the first time."""

    number: int
    name: str
    entering: tuple["_Call", ...] = ()
    reads: set["_Call"] = field(default_factory=set, compare=False)
    """The calls whose outputs it reads, without a call in between."""


def _settled(calls: list[_Call]) -> dict[str, str]:
    """Layers whose every call enters the same norm, and nothing else waits there when it does."""
    norms_of: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        for layer in call.entering:
            norms_of[layer.name].add(call.name)
    norm_after = {layer: min(norms) for layer, norms in norms_of.items() if len(norms) == 1}
    waiting: dict[str, set[_Call]] = defaultdict(set)
    unclear: set[_Call] = set()
    for call in calls:
        if call.name in norm_after:
            waiting[norm_after[call.name]].add(call)
        else:
            here = {layer for layer in call.entering if layer.name in norm_after}
            unclear |= waiting[call.name] ^ here
            waiting[call.name].clear()
    unclear = unclear.union(*waiting.values())
    return {layer: norm for layer, norm in norm_after.items() if layer not in {call.name for call in unclear}}


def _added_into(node: Any, made: Mapping[Any, _Call]) -> Iterator[_Call]:
    """The calls that made the terms of a sum."""
    nodes, seen = [node], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node in made:
            yield made[node]
        elif type(node).__name__ == "AddBackward0" and node._saved_alpha == 1:
            nodes.extend(parent for parent, _ in node.next_functions)


def _streams(ends: list[Any], made: Mapping[Any, _Call]) -> list[frozenset[str]]:
    """The names behind every addition, those that flow together in one set; without sets that have unknown terms."""
    streams: list[set[str | None]] = []
    known: dict[Any, set[str | None]] = {}
    nodes, seen = list(ends), set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node not in made or node in ends:
            nodes.extend(parent for parent, _ in node.next_functions)
        if type(node).__name__ == "AddBackward0":
            terms = _terms(node, made, known)
            apart = [each for each in streams if not each & (terms - {None})]
            joined = [each for each in streams if each & (terms - {None})]
            streams = [*apart, terms.union(*joined)]
    return [frozenset(name for name in each if name is not None) for each in streams if None not in each]


def _terms(node: Any, made: Mapping[Any, _Call], known: dict[Any, set[str | None]]) -> set[str | None]:
    """What is added up in a node; None for a term that no layer or norm made, or that is scaled."""
    if node not in known:
        kind = type(node).__name__
        parents = [parent for parent, _ in node.next_functions] if node is not None else []
        keeps_multiples = kind in _KEEP_MULTIPLES or (kind in _CLAMPS and _clamps_at_0_and_1(node))
        if node in made:
            known[node] = {made[node].name}
        elif kind == "AddBackward0" and node._saved_alpha == 1:
            known[node] = set().union(*(_terms(parent, made, known) for parent in parents))
        else:
            known[node] = _terms(parents[0], made, known) if keeps_multiples else {None}
    return known[node]


_KEEP_MULTIPLES = ("ReluBackward0", "MaxPool2DWithIndicesBackward0", "ViewBackward0", "CloneBackward0")
_CLAMPS = ("ClampBackward0", "ClampBackward1", "ClampMinBackward0", "HardtanhBackward0")


def _clamps_at_0_and_1(node: Any) -> bool:
    limits = [getattr(node, f"_saved_{name}", None) for name in ("min", "max", "min_val", "max_val")]
    return all(limit is None or limit in (0, 1) for limit in limits)


def _read_through(node: Any, made: Mapping[Any, _Call]) -> _Call | None:
    """The call that made a tensor, seen through functions of one tensor such as clip, ReLU and pooling."""
    while node is not None and node not in made:
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        node = parents[0] if len(parents) == 1 else None
    return None if node is None else made[node]


@contextmanager
def _watched(modules: Mapping[str, nn.Module], watch: Any) -> Iterator[None]:
    handles: list[RemovableHandle] = []
    for name, module in modules.items():

        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, name: str = name) -> None:
            watch(name, args[0] if args else kwargs["input"], output)

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


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, then every module's own again."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def _differentiable(model: nn.Module) -> Iterator[None]:
    """Evaluation mode with every parameter part of the graph, and back as it was."""
    needs = {parameter: parameter.requires_grad for parameter in model.parameters()}
    model.requires_grad_(True)
    try:
        with torch.enable_grad(), evaluating(model):
            yield
    finally:
        for parameter, need in needs.items():
            parameter.requires_grad_(need)
