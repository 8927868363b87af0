"""Ranking: every layer's score with the evidence around it, as `rank` returns and `pdqat sensitivity` shows it."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from rich.table import Table

from pdqat.evidence import Entry
from pdqat.terminal import as_text, new_table

T = TypeVar("T")

LAST_EPOCHS = 2
"""Over so many a multiplier should have settled."""
BAR = 10


@dataclass(frozen=True)
class RankedLayer:
    """What is known of a layer. Without layer constraints there is no distance, slack, tolerance or multiplier."""

    layer: str
    score: float
    precision: str
    multiplier: float | None
    change: float | None
    """Of the multiplier over the last epochs, relative to its size: 0 when it rests."""
    off: float | None
    """By which part of its tolerance the distance is over it, or not at it though the multiplier is above 0."""
    distance: float | None
    slack: float | None
    tolerance: float | None
    parameters: int
    operations: int


@dataclass(frozen=True)
class Ranking:
    """The layers, the highest score first: the higher, the more the layer is said to need its precision."""

    by: str
    layers: list[RankedLayer]

    @property
    def scores(self) -> dict[str, float]:
        """By layer, the highest first."""
        return {layer.layer: layer.score for layer in self.layers}

    def __str__(self) -> str:
        return as_text([self.table(), NOTE])

    def table(self) -> Table:
        """With a bar for every score."""
        table = new_table(f"layers by {self.by}: the longer the bar, the larger the need")
        table.add_column("layer", overflow="fold")
        table.add_column("", no_wrap=True)
        multiplier = ["multiplier"] if self.by != "dual" else []
        for heading in ("score", *multiplier, "moved", "off", "distance", "slack", "tolerance", "params", "MACs"):
            table.add_column(heading, justify="right", no_wrap=True)
        highest = max(layer.score for layer in self.layers)
        for layer in self.layers:
            length = round(BAR * layer.score / highest) if highest > 0 and layer.score > 0 else 0
            rest = ["" if part is None else f"{part:.0%}" for part in (layer.change, layer.off)]
            numbers = [_number(layer.score), *(_number(layer.multiplier) for _ in multiplier), *rest]
            numbers += [_number(value) for value in (layer.distance, layer.slack, layer.tolerance)]
            table.add_row(layer.layer, "█" * length, *numbers, _short(layer.parameters), _short(layer.operations))
        return table

    def csv(self) -> str:
        """One line a layer."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(asdict(self.layers[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(layer) for layer in self.layers)
        return text.getvalue()


NOTE = (
    f"moved: change of the multiplier over the last {LAST_EPOCHS} epochs; off: how far the distance is from the "
    "tolerance that the multiplier stands for. Where both are near 0 % it has settled."
)


def over_last_epochs(epochs: Sequence[T]) -> tuple[T, T]:
    """What was LAST_EPOCHS before the end, or at first where there are fewer, and what is at the end."""
    return epochs[max(0, len(epochs) - 1 - LAST_EPOCHS)], epochs[-1]


def relative_change(layer: str, history: Sequence[Entry]) -> float | None:
    """Of a layer's multiplier over the last epochs, as a part of the larger of the two; None if they don't tell."""
    if len(history) < 2:
        return None
    before, now = (_multiplier(layer, epoch) for epoch in over_last_epochs(history))
    if now is None or before is None:
        return None
    return 0.0 if now == before else abs(now - before) / max(now, before)


def slack_in_tolerances(entry: Entry) -> float | None:
    """How much of its tolerance a layer misses complementary slackness by: 0 when it has settled."""
    if entry["tolerance"] == 0:
        return None
    slack: float = entry["slack"] / entry["tolerance"]
    return abs(slack) if entry["multiplier"] > 0 else max(slack, 0.0)


def _multiplier(layer: str, epoch: Entry) -> float | None:
    of_layer = (entry for entry in epoch["constraints"] if entry["kind"] == "layer" and entry["where"] == layer)
    return next((float(entry["multiplier"]) for entry in of_layer), None)


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.2g}"


def _short(count: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)
