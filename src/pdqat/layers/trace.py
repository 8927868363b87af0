"""What one forward of the plain model on an example tells: order of the layers, and where their outputs go.

The way of a tensor is read off autograd's graph, so any module that runs can be traced, whatever its control flow.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from pdqat.errors import InputError


@dataclass
class Trace:
    """The calls of layers, and for each layer where its output goes."""

    calls: list[str] = field(default_factory=list)
    """Every call of a layer, in order."""
    norm_after: dict[str, str] = field(default_factory=dict)
    """Layer to the batch norm that its output enters, directly or through additions."""
    readers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Layer or norm to the layers that read its output, directly or through functions of one tensor."""
    streams: list[frozenset[str]] = field(default_factory=list)
    """Layers and norms whose outputs are added up, directly or behind ReLU, clip at 0 and 1 or maximum pooling: those
    of one set add into the same sums. Sums with other terms are left out."""

    @property
    def layers(self) -> list[str]:
        """In the order of their first call."""
        return list(dict.fromkeys(self.calls))


def trace(model: nn.Module, layers: Mapping[str, nn.Module], norms: Mapping[str, nn.Module], example: Any) -> Trace:
    """Run `model` once, in evaluation mode and with its state untouched, and watch its layers and norms."""
    result, made, ends = Trace(), dict[Any, _Call](), list[Any]()
    calls: list[_Call] = []
    at_a_norm: set[int] = set()

    def after_layer(name: str, given: Tensor, output: Tensor) -> None:
        ends.append(given.grad_fn)
        source = _read_through(given.grad_fn, made)
        if source is not None:
            result.readers[source.name].add(name)
        result.calls.append(name)
        calls.append(_Call(len(calls), name))
        made[output.grad_fn] = calls[-1]

    def after_norm(name: str, given: Tensor, output: Tensor) -> None:
        ends.append(given.grad_fn)
        terms = [call for call in _added_into(given.grad_fn, made) if call.name in layers]
        calls.append(_Call(len(calls), name, tuple(term for term in terms if term.number not in at_a_norm)))
        at_a_norm.update(term.number for term in terms)
        made[output.grad_fn] = calls[-1]

    with _watched(layers, after_layer), _watched(norms, after_norm), _differentiable(model):
        try:
            output = call_model(model, example)
        except Exception as error:
            raise InputError(f"the model can't process the example input ({describe(example)}): {error}") from error
    if not isinstance(output, Tensor):
        raise InputError(f"the model returns a {type(output).__name__}; wrap it in a module that returns one tensor")
    result.norm_after = _settled(calls)
    result.streams = _streams([*ends, output.grad_fn], made)
    return result


def call_model(model: nn.Module, inputs: Any) -> Any:
    """Call with a tuple as positional arguments, a mapping as keyword arguments, anything else as the one argument."""
    if isinstance(inputs, tuple | list):
        return model(*inputs)
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(inputs)


def describe(example: Any) -> str:
    """The shape of an example, for messages."""
    if isinstance(example, Tensor):
        return f"shape {tuple(example.shape)}"
    if isinstance(example, tuple | list):
        return ", ".join(describe(part) for part in example)
    return type(example).__name__


@dataclass(frozen=True)
class _Call:
    """One call of a layer or norm; for a norm, the layer calls whose outputs enter a norm here for the first time."""

    number: int
    name: str
    entering: tuple["_Call", ...] = ()


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
