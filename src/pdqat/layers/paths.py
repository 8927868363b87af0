"""Ways through autograd's graph: from which layers and norms a tensor was made, and how."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pdqat.layers.clip import Clip


@dataclass(frozen=True)
class LayerCall:
    """One call of a layer or norm; for a norm, the layer calls whose outputs enter a norm here for the first time."""

    number: int
    name: str
    entering: tuple["LayerCall", ...] = ()
    reads: set["LayerCall"] = field(default_factory=set, compare=False)
    """The calls whose outputs it reads, without a call in between."""
    given: Any = field(default=None, compare=False, repr=False)
    """Autograd's node of what it reads."""


def sources(node: Any, made: "Mapping[Any, LayerCall]") -> "set[LayerCall]":
    """The calls from which a tensor was made, without a call in between."""
    nodes, seen, sources = [node], set(), set[LayerCall]()
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


def norms_after(calls: list[LayerCall]) -> dict[str, str]:
    """Layers whose every call enters the same norm, and nothing else waits there when it does."""
    norms_of: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        for layer in call.entering:
            norms_of[layer.name].add(call.name)
    norm_after = {layer: min(norms) for layer, norms in norms_of.items() if len(norms) == 1}
    waiting: dict[str, set[LayerCall]] = defaultdict(set)
    unclear: set[LayerCall] = set()
    for call in calls:
        if call.name in norm_after:
            waiting[norm_after[call.name]].add(call)
        else:
            here = {layer for layer in call.entering if layer.name in norm_after}
            unclear |= waiting[call.name] ^ here
            waiting[call.name].clear()
    unclear = unclear.union(*waiting.values())
    return {layer: norm for layer, norm in norm_after.items() if layer not in {call.name for call in unclear}}


def added_into(node: Any, made: Mapping[Any, LayerCall]) -> Iterator[LayerCall]:
    """The calls that made the terms of a sum."""
    nodes, seen = [node], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node in made:
            yield made[node]
        elif is_sum(node):
            nodes.extend(parent for parent, _ in node.next_functions)


def is_sum(node: Any) -> bool:
    """Whether a node adds up two terms as they are."""
    return type(node).__name__ == "AddBackward0" and bool(node._saved_alpha == 1)


def streams_of(ends: list[Any], made: Mapping[Any, LayerCall], norms: Collection[str]) -> list[frozenset[str]]:
    """The names behind every addition and every mean of an image, those that flow together in one set.

    A norm in front of a mean may as well be applied behind it, so what counts there is what the norm reads. A mean of
    what something else reads too is left alone, and so are sets that have unknown terms.
    """
    readers = Counter(call.given for call in set(made.values()))
    adding: list[Any] = []
    nodes, seen = list(ends), set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        parents = [parent for parent, _ in node.next_functions]
        if node not in made:
            readers.update(parents)
        if node not in made or node in ends:
            nodes.extend(parents)
        if type(node).__name__ == "AddBackward0" or _is_mean_of_image(node):
            adding.append(node)
    streams: list[set[str | None]] = []
    known: dict[Any, set[str | None]] = {}
    for node in adding:
        if type(node).__name__ == "AddBackward0":
            terms = _terms(node, made, known)
        else:
            averaged = node.next_functions[0][0]
            if not _has_one_reader(averaged, readers, made):
                continue
            terms = _terms(_before_norms(averaged, made, norms), made, known)
        apart = [stream for stream in streams if not stream & (terms - {None})]
        joined = [stream for stream in streams if stream & (terms - {None})]
        streams = [*apart, terms.union(*joined)]
    return [frozenset(name for name in stream if name is not None) for stream in streams if None not in stream]


def _is_mean_of_image(node: Any) -> bool:
    """Whether a node takes the mean over all dimensions behind samples and channels."""
    if type(node).__name__ != "MeanBackward1" or node._saved_dim is None:
        return False
    count = len(node._saved_self_sym_sizes)
    signed = (dim - 2**64 if dim >= 2**63 else dim for dim in node._saved_dim)  # torch shows -1 as the largest number
    return count > 2 and {dim % count for dim in signed} == set(range(2, count))


def _has_one_reader(node: Any, readers: Mapping[Any, int], made: Mapping[Any, LayerCall]) -> bool:
    """Whether one function alone reads this tensor, and so on back to what made it."""
    while readers[node] == 1 and node not in made and len(node.next_functions) == 1:
        node = node.next_functions[0][0]
    return readers[node] == 1


def _before_norms(node: Any, made: Mapping[Any, LayerCall], norms: Collection[str]) -> Any:
    while node in made and made[node].name in norms:
        node = made[node].given
    return node


def _terms(node: Any, made: Mapping[Any, LayerCall], known: dict[Any, set[str | None]]) -> set[str | None]:
    """What is added up in a node; None for a term that no layer or norm made, or that is scaled."""
    if node not in known:
        kind = type(node).__name__
        parents = [parent for parent, _ in node.next_functions] if node is not None else []
        keeps_multiples = kind in _KEEP_MULTIPLES or (is_clip(node) and _is_at_whole_numbers(clip_of(node)))
        if node in made:
            known[node] = {made[node].name}
        elif is_sum(node):
            known[node] = set().union(*(_terms(parent, made, known) for parent in parents))
        else:
            known[node] = _terms(parents[0], made, known) if keeps_multiples else {None}
    return known[node]


_KEEP_MULTIPLES = {
    "CloneBackward0",
    "MaxPool2DWithIndicesBackward0",
    "UnsqueezeBackward0",
    "ViewBackward0",
}


def _is_at_whole_numbers(clip: Clip) -> bool:
    return all(math.isinf(limit) or limit % 1 == 0 for limit in (clip.low, clip.high))


def read_through(node: Any, made: Mapping[Any, LayerCall]) -> tuple[LayerCall, Clip] | None:
    """The call that made a tensor, and the clips in between; None if any other function makes new values on the way.

    To take values from a tensor, in whatever order and shape, is nothing that changes them.
    """
    clip = Clip()
    while node is not None and node not in made:
        kind = type(node).__name__
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        if is_clip(node):
            clip = clip.after(clip_of(node))
        elif kind.rstrip("0123456789").removesuffix("Backward") not in TAKE_VALUES:
            return None
        node = parents[0] if len(parents) == 1 else None
    return None if node is None else (made[node], clip)


_CLIPS = {"ReluBackward0", "ClampBackward1", "ClampMinBackward0", "ClampMaxBackward0", "HardtanhBackward0"}
TAKE_VALUES = {
    *("View", "UnsafeView", "Clone", "ToCopy", "Transpose", "T", "Permute", "Squeeze", "Unsqueeze", "Expand"),
    *("Slice", "Select", "Split", "Unbind", "Index", "IndexSelect", "Flip", "Roll", "PixelShuffle", "ChannelShuffle"),
    *("MaxPool2DWithIndices", "MaxPool3DWithIndices", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D", "Amax", "Max"),
    *("ConstantPadNd", "UpsampleNearest1D", "UpsampleNearest2D", "UpsampleNearest3D", "Repeat"),
}
"""Functions that make no new values, but for a constant around an image."""


def is_clip(node: Any) -> bool:
    """Whether a node is ReLU or clips at fixed numbers."""
    return type(node).__name__ in _CLIPS


def clip_of(node: Any) -> Clip:
    """What such a node does."""
    if type(node).__name__ == "ReluBackward0":
        return Clip(low=0.0)
    low, high = (
        next((limit for name in names if (limit := getattr(node, f"_saved_{name}", None)) is not None), open_end)
        for names, open_end in ((("min", "min_val"), -math.inf), (("max", "max_val"), math.inf))
    )
    return Clip(float(low), float(high))
