"""Residual branches that a network can do without, read off the graph of one forward.

A sum y = s + b of a branch b stays what it is meant to be without b if s comes from the same earlier layer by fewer
layers: a skip connection, or a shorter projection. The last layer of b can then be dropped, and so can all layers that
only feed it. Between that layer and the sum lie at the most a batch norm, which goes with it, and functions that make 0
of 0. Of two terms only the one of more layers can go, so every sum keeps a term, whatever is dropped.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pdqat.layers.paths import TAKE_VALUES, LayerCall, clip_of, is_clip, is_sum, sources

_OF_ZERO = (TAKE_VALUES - {"ConstantPadNd"}) | {"Mul"}
"""What makes 0 of 0, beside clips."""


@dataclass(frozen=True)
class Branch:
    """What goes with a layer that is dropped."""

    feeding: frozenset[str]
    """The layers whose outputs reach the model's only through it."""
    norms: frozenset[str]
    """The batch norms between it and the sum."""


class _Graph:
    """Autograd's graph from what the model returns to its layers, with the way back."""

    def __init__(self, ends: Iterable[Any], made: Mapping[Any, LayerCall], layers: Collection[str]) -> None:
        self.made, self._layers = made, layers
        self.nodes_of: dict[LayerCall, set[Any]] = defaultdict(set)
        for node, call in made.items():
            self.nodes_of[call].add(node)
        self._readers: dict[Any, list[Any]] = defaultdict(list)
        self._ends = [end for end in ends if end is not None]
        waiting, seen = list(self._ends), set[Any]()
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                parents = [parent for parent, _ in node.next_functions if parent is not None]
                waiting.extend(parents)
                for parent in parents:
                    self._readers[parent].append(node)
        self._fewest: dict[Any, int | None] = {None: None}

    def only_reader(self, nodes: set[Any]) -> Any:
        """What alone reads what some nodes make together; None if that is several, or the model returns it."""
        readers = [reader for node in nodes for reader in self._readers[node] if reader not in nodes]
        return readers[0] if len(readers) == 1 and not nodes & set(self._ends) else None

    def fewest_layers(self, node: Any) -> int | None:
        """On the shortest way to a node through sums, else the longest; None if no layer made it."""
        if node not in self._fewest:
            call = self.made.get(node)
            if call is not None:
                before = self.fewest_layers(call.given)
                self._fewest[node] = (before or 0) + (call.name in self._layers)
            else:
                counts = [self.fewest_layers(parent) for parent, _ in node.next_functions]
                known = [count for count in counts if count is not None]
                self._fewest[node] = (min if is_sum(node) else max)(known) if known else None
        return self._fewest[node]

    def sum_behind(self, call: LayerCall, norms: Collection[str]) -> tuple[Any, Any, list[LayerCall]] | None:
        """The sum that a call's output is a term of, the node of that term, and norms in between; None without one."""
        last, passed = self.nodes_of[call], list[LayerCall]()
        while (node := self.only_reader(last)) is not None:
            if is_sum(node):
                term = next(parent for parent, _ in node.next_functions if parent in last)
                return node, term, passed
            norm = self.made.get(node)
            if norm is not None:
                if norm.name not in norms or passed:
                    return None
                passed.append(norm)
                last = self.nodes_of[norm]
            elif _makes_zero_of_zero(node):
                last = {node}
            else:
                return None
        return None


def branches(
    ends: Sequence[Any],
    made: Mapping[Any, LayerCall],
    calls: Sequence[LayerCall],
    layers: Collection[str],
    norms: Collection[str],
) -> dict[str, Branch]:
    """By the layer that can be dropped: a last one of a branch whose sum keeps another term.

    Args:
        ends: nodes of all tensors that the model returns.
        made: the call that made a node's tensor.
        calls: all of them, in order.
        layers: names of those that are layers.
        norms: names of those that are batch norms.
    """
    graph = _Graph(ends, made, layers)
    before = _all_before(calls)
    calls_of: dict[str, list[LayerCall]] = defaultdict(list)
    for call in calls:
        graph.fewest_layers(next(iter(graph.nodes_of[call]), None))  # in order, so that none has far to go back
        calls_of[call.name].append(call)
    found: dict[str, Branch] = {}
    for layer in (name for name in calls_of if name in layers):
        passed = [_norms_if_spare(graph, call, before, norms) for call in calls_of[layer]]
        if all(it is not None for it in passed):
            behind = {norm for of_call in passed for norm in of_call or ()}
            names = frozenset(norm.name for norm in behind)
            if all(set(calls_of[name]) <= behind for name in names):
                found[layer] = Branch(_only_through(layer, ends, made, calls) & set(layers), names)
    return found


def _norms_if_spare(
    graph: _Graph, call: LayerCall, before: Mapping[LayerCall, set[LayerCall]], norms: Collection[str]
) -> list[LayerCall] | None:
    """The norms behind a call up to a sum that can do without it; None if there is no such sum."""
    behind = graph.sum_behind(call, norms)
    if behind is None:
        return None
    node, term, passed = behind
    others = [parent for parent, _ in node.next_functions if parent is not term]
    if len(others) != 1 or others[0] is None or _shape(others[0]) != _shape(node):
        return None
    others_calls = sources(others[0], graph.made)
    reached = others_calls.union(*(before[other] for other in others_calls))
    ours, theirs = graph.fewest_layers(term), graph.fewest_layers(others[0])
    is_longer = ours is not None and theirs is not None and theirs < ours
    return passed if is_longer and reached & before[call] else None


def _all_before(calls: Sequence[LayerCall]) -> dict[LayerCall, set[LayerCall]]:
    """By call, all from which it was made."""
    before: dict[LayerCall, set[LayerCall]] = {}
    for call in calls:  # in order, so that what a call reads is known
        before[call] = call.reads.union(*(before[read] for read in call.reads))
    return before


def _only_through(
    layer: str, ends: Sequence[Any], made: Mapping[Any, LayerCall], calls: Sequence[LayerCall]
) -> frozenset[str]:
    """The names that reach the ends only through a layer."""
    waiting = [call for end in ends for call in sources(end, made)]
    through, around = set(waiting), {call for call in waiting if call.name != layer}
    for call in reversed(calls):
        if call in through:
            through |= call.reads
        if call in around:
            around |= {read for read in call.reads if read.name != layer}
    apart = {call.name for call in around} | {layer}
    return frozenset(call.name for call in through if call.name not in apart)


def _makes_zero_of_zero(node: Any) -> bool:
    if is_clip(node):
        clip = clip_of(node)
        return clip.low <= 0 <= clip.high
    return type(node).__name__.rstrip("0123456789").removesuffix("Backward") in _OF_ZERO


def _shape(node: Any) -> tuple[int, ...]:
    """Of what a node made."""
    return tuple(node._input_metadata[0].shape)
