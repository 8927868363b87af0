"""Collects distances between the two sides of layers and blocks during one forward under a plan.

Both sides of a layer see the same quantised input z: layer(z, full(w)) and layer(z, quantize(w)). Compared at the
layer's own output, that is all. Compared where the next layer reads, both go through the norm that follows, with the
low-precision side's statistics, and then wait for the layer that reads them: its activation quantiser q clips the
full-precision side, and clips and rounds the other one. The distance is thus between q.full(a) and q.quantize(a^q). The
norm is the same affine map on both sides, so the full-precision side of a layer whose output reaches the norm through
an addition is the norm's input plus the difference of the two layer outputs.

With `part` below 1 the twins of layers are computed on so large a random part of the batch: an estimate of the same
means for less work.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from pdqat.errors import InputError
from pdqat.layers.clip import Clip
from pdqat.layers.distances import Distance, precise
from pdqat.layers.layer_quantizers import Candidates
from pdqat.precision import Precision
from pdqat.quantizers import Quantizer

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
class Reader:
    """A layer that rounds what another one makes, and the clips in between."""

    name: str
    clip: Clip


@dataclass(frozen=True)
class _Pending:
    """A layer's two sides on their way to the norm that follows."""

    layer: str
    difference: Tensor
    """Of the full-precision side from the low one."""
    shift: Tensor | None
    """Of the low side from what enters the norm, if it is not that itself."""
    reader: Reader | None


@dataclass(frozen=True)
class _Unread:
    """A layer's two sides on their way to the layer that rounds them."""

    layer: str
    full: Tensor
    low: Tensor
    channel_dim: int


class Recorder:
    """Per distance and name the distances per channel, one entry for every call of the layer or block."""

    def __init__(
        self,
        requests: Iterable[Request],
        part: float = 1.0,
        candidates: Candidates | None = None,
        shared: bool = False,
    ) -> None:
        self._requests = tuple(requests)
        self._part = part
        self._shared = shared
        self.candidates = candidates
        """Precisions at which layers are compared beside the plan's own, under the name `candidate_name`."""
        self._rows: dict[int, Tensor] = {}
        self._pending: dict[str, list[_Pending]] = defaultdict(list)
        self._unread: dict[str, list[_Unread]] = defaultdict(list)
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
            waiting = (reader for reader, items in self._unread.items() if name in {item.layer for item in items})
            missing = " and ".join(f"{reader}, which reads {name}," for reader in waiting) or name
            raise InputError(f"{missing} was not computed in this forward; a constraint needs a place that always is")
        return torch.stack(self._recorded[distance, name]).mean(0)

    def compare(self, name: str, full: Tensor, low: Tensor, channel_dim: int, at_reader: bool) -> None:
        """Take the distances that are measured here."""
        for distance in self._distances(name):
            if distance.at_reader is at_reader:
                self._recorded[distance, name].append(distance.per_channel(full, low, channel_dim, self._shared))

    def defer(self, name: str, norm: str, difference: Tensor, shift: Tensor | None, reader: Reader | None) -> None:
        """Keep what tells a layer's two sides until the norm that follows is computed."""
        if any(distance.at_reader for distance in self._distances(name)):
            shift = None if shift is None else self.sampled(shift)
            self._pending[norm].append(_Pending(name, difference, shift, reader))

    def awaits(self, norm: str) -> bool:
        """Whether a layer's sides are waiting for this norm."""
        return bool(self._pending.get(norm))

    def through_norm(self, norm: str, output: Tensor, slope: Tensor, channel_dim: int) -> None:
        """Take the waiting layers behind the norm: its output, and the same plus slope x difference."""
        output = precise(self.sampled(output))
        for item in self._pending.pop(norm):
            low = output if item.shift is None else output + slope * precise(item.shift)
            self.hand_on(item.layer, low + slope * precise(item.difference), low, channel_dim, item.reader)

    def hand_on(self, name: str, full: Tensor, low: Tensor, channel_dim: int, reader: Reader | None) -> None:
        """Keep a layer's two sides until the layer that rounds them is computed; compare them now if none does."""
        if reader is None:
            self.compare(name, full, low, channel_dim, at_reader=True)
        elif any(distance.at_reader for distance in self._distances(name)):
            # The clip makes copies: what follows in the model, a ReLU or a sum, may change the low side in place.
            self._unread[reader.name].append(_Unread(name, reader.clip(full), reader.clip(low), channel_dim))

    def read(self, reader: str, quantizer: Quantizer, bits: int) -> None:
        """Compare what waits for this layer, as its activation quantiser makes it out."""
        for item in self._unread.pop(reader, []):
            with torch.no_grad():
                rounded = quantizer.quantize(precise(item.low), bits)
            self.compare(item.layer, quantizer.full(item.full), rounded, item.channel_dim, at_reader=True)

    def _distances(self, name: str) -> list[Distance]:
        return list(dict.fromkeys(request.distance for request in self._requests if name in request.names))
