"""Coverage: how much of a model its plans quantise, and why the rest stays as it is."""

from collections.abc import Mapping
from dataclasses import dataclass

from pdqat.layers.sizes import LayerSize
from pdqat.terminal import as_text, new_table, percent


@dataclass(frozen=True)
class Coverage:
    """What is quantised, beside all that the model has. `print` shows it."""

    layers: Mapping[str, LayerSize]
    """The layers that plans quantise."""
    quantized: int
    """Of their weights; one that layers share counts once."""
    parameters: int
    """Of all of the model's weights, in whatever module."""
    operations: int
    """Multiply-accumulates of all layers, quantised or not, for one sample."""
    left_alone: Mapping[str, str]
    """What stays in full precision, with the reason."""

    @property
    def of_weights(self) -> float:
        """The part of the model's parameters that is quantised."""
        return self.quantized / self.parameters

    @property
    def of_operations(self) -> float:
        """The part of the layers' multiply-accumulates that reads and multiplies quantised numbers."""
        return sum(size.operations for size in self.layers.values()) / max(self.operations, 1)

    def __str__(self) -> str:
        share = f"{percent(self.of_weights)} of the weights and {percent(self.of_operations)} of the operations"
        count = f"{len(self.layers)} layers are" if len(self.layers) != 1 else "1 layer is"
        lines = [f"{count} quantised: {share}"]
        if not self.left_alone:
            return lines[0]
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.left_alone.items():
            by_reason.setdefault(reason, []).append(name or "(the model itself)")
        table = new_table()
        table.add_column("left alone", overflow="fold")
        table.add_column("reason", overflow="fold")
        for reason, names in by_reason.items():
            shown = ", ".join(names[:SHOWN])
            table.add_row(shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more", reason)
        return as_text([*lines, table])


SHOWN = 3
"""So many names stand for all with the same reason."""
