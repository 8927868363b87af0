"""Operations on a row: on the numbers of one pixel, a channel each, while they are in hand.

What lies behind a convolution pixel by pixel (rounding, the other summand, the next norm) is done before the row is
stored, so that nothing between is ever stored.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pdqat.deployment.formats.c_tensors import REAL, Stored
from pdqat.deployment.formats.c_text import real, structure, table

SIZES = {"int8_t": 1, "uint8_t": 1, "int32_t": 4, "int64_t": 8, "float": 4}

IN_REALS = ("add_reals", "as_real", "clip_reals", "row_to_codes", "row_to_real", "scale_row")
"""Kernels that read or make real numbers."""


@dataclass(frozen=True)
class RowOperation:
    """A kernel and its constants."""

    kernel: str
    numbers: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, np.ndarray]] = field(default_factory=dict)
    """By the field that they are for: type and numbers."""
    reals: dict[str, float] = field(default_factory=dict)
    other: Stored | None = None
    """What is added."""
    observed: int = 0
    """The number of the layer whose codes it makes, from 1 on."""

    def definitions(self, name: str) -> list[str]:
        """Its constants in C."""
        if self.other is not None:
            return []
        fields: dict[str, Any] = {**self.numbers}
        fields |= {field: real(value) for field, value in self.reals.items()}
        fields |= {field: f"{name}_{field}" for field in self.tables}
        tables = [table(kind, f"{name}_{field}", numbers) for field, (kind, numbers) in self.tables.items()]
        return [*tables, structure("row_operation", name, fields)]

    def calls(self, name: str, made: Stored) -> list[str]:
        """What is done in C to a row of a pixel of the tensor that is made."""
        if self.other is None:
            calls = [f"{self.kernel}(&{name}, arena.row, {made.channels});"]
        elif self.other.kind == REAL:
            calls = [f"{self.kernel}(arena.row, &{self.other.name}, pixel);"]
        else:
            calls = self.other.add_to("arena.row")
        return [*calls, *([f"OBSERVE({self.observed - 1}, arena.row, &{made.name}, pixel);"] if self.observed else [])]

    def repeated(self, channels: int) -> "RowOperation":
        """One channel's constants for all."""
        tables = {field: (kind, np.repeat(numbers, channels, axis=0)) for field, (kind, numbers) in self.tables.items()}
        return replace(self, tables=tables)

    @property
    def bytes(self) -> int:
        """Of the tables."""
        return sum(SIZES[kind] * numbers.size for kind, numbers in self.tables.values())
