"""Collects distances between the two sides of layers and blocks during one forward under a plan.

Both sides of a layer see the same quantised input z: layer(z, full(w)) and layer(z, quantize(w)). Compared at the
layer's own output, that is all. Compared where the next layer reads, both go through the norm that follows, with the
low-precision side's statistics, and through the clip of the reading layer's quantiser. The norm is the same affine map
on both sides, so the full-precision side of a layer whose output reaches the norm through an addition is the norm's
input plus the difference of the two layer outputs.

With `part` below 1 the twins of layers are computed on so large a random part of the batch: an estimate of the same
means for less work.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from pdqat.errors import InputError
from pdqat.layers.distances import Distance, precise
from pdqat.layers.layer_quantizers import Candidates
from pdqat.precision import Precision

FEWEST_ROWS = 16
"""A sample is not smaller: the relative distance divides by a variance, which few rows can't tell."""


@dataclass(frozen=True)
class Request:
    """One wanted comparison: the layers or blocks of those names by that distance."""

    names: frozenset[str]
    distance: Distance


def candidate_name(layer: str, precision: Precision) -> str:
    """Under which a layer's distance at another precision than the plan's is recorded."""
    return f"{layer}@{precision}"


@dataclass(frozen=True)
class _Pending:
    """A layer's difference on its way to the norm that follows."""

    layer: str
    difference: Tensor
    read: Callable[[Tensor], Tensor]


class Recorder:
    """Per distance and name the distances per channel, one entry for every call of the layer or block."""

    def __init__(self, requests: Iterable[Request], part: float = 1.0, candidates: Candidates | None = None) -> None:
        self._requests = tuple(requests)
        self._part = part
        self.candidates = candidates
        """Precisions at which layers are compared beside the plan's own, under the name `candidate_name`."""
        self._rows: dict[int, Tensor] = {}
        self._pending: dict[str, list[_Pending]] = defaultdict(list)
        self._recorded: dict[tuple[Distance, str], list[Tensor]] = defaultdict(list)

    def wants(self, name: str) -> bool:
        """Whether a twin of this layer or block has to be computed."""
        return any(name in request.names for request in self._requests)

    def sampled(self, batch: Tensor) -> Tensor:
        """The random part of a batch that is compared: in one forward the same rows of all batches of one size."""
        size = len(batch)
        count = max(FEWEST_ROWS, round(self._part * size))
        if count >= size:
            return batch
        self.draw(size, batch.device)
        return batch.index_select(0, self._rows[size])

    def draw(self, size: int, device: torch.device) -> None:
        """Choose the rows of batches of this size, unless all are taken: before a forward that draws on its own."""
        count = max(FEWEST_ROWS, round(self._part * size))
        if count < size and size not in self._rows:
            self._rows[size] = torch.randperm(size, device=device)[:count]

    def distance(self, distance: Distance, name: str) -> Tensor:
        """The distance of each channel, averaged over the calls in this forward."""
        if not self._recorded[distance, name]:
            raise InputError(f"{name} was not computed in this forward; a constraint needs a place that always is")
        return torch.stack(self._recorded[distance, name]).mean(0)

    def compare(self, name: str, full: Tensor, low: Tensor, channel_dim: int, at_reader: bool) -> None:
        """Take the distances that are measured here."""
        for distance in self._distances(name):
            if distance.at_reader is at_reader:
                self._recorded[distance, name].append(distance.per_channel(full, low, channel_dim))

    def defer(self, name: str, norm: str, difference: Tensor, read: Callable[[Tensor], Tensor]) -> None:
        """Keep the difference of a layer's two sides until the norm that follows is computed."""
        if any(distance.at_reader for distance in self._distances(name)):
            self._pending[norm].append(_Pending(name, difference, read))

    def awaits(self, norm: str) -> bool:
        """Whether a layer's difference is waiting for this norm."""
        return bool(self._pending.get(norm))

    def through_norm(self, norm: str, output: Tensor, slope: Tensor, channel_dim: int) -> None:
        """Compare the waiting layers behind the norm: its output, and the same plus slope x difference."""
        output = precise(self.sampled(output))
        for item in self._pending.pop(norm):
            full = output + slope * precise(item.difference)
            self.compare(item.layer, item.read(full), item.read(output), channel_dim, at_reader=True)

    def _distances(self, name: str) -> list[Distance]:
        return list(dict.fromkeys(request.distance for request in self._requests if name in request.names))
