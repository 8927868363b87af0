"""Budgets: what a plan may use, in average bits, per cent of float32, bytes or bit operations.

    bits    sum_l parameters_l x weight bits_l / sum_l parameters_l
    %       100 x sum_l parameters_l x weight bits_l / sum_l parameters_l x 32
    bytes   sum_l parameters_l x weight bits_l / 8
    BOPs    sum_l multiply-accumulates_l x weight bits_l x activation bits_l

over the layers that can be quantised; full precision counts as 32 bits.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pdqat.errors import InputError
from pdqat.precision import Precision

if TYPE_CHECKING:  # budgets are read on the command line, where nothing needs torch yet
    from pdqat.layers.sizes import LayerSize

FULL_BITS = 32
SHOWN_DIGITS = 4
BUDGET_FORM = (
    "an amount above 0 with a unit, such as '2.5 bits' on average, '12.5 %' of float32, '40 KB' or '0.5 GBOPs'"
)
_BYTES = {"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_OPERATIONS = {"bops": 1, "kbops": 1000, "mbops": 1000**2, "gbops": 1000**3, "tbops": 1000**4}


class Unit(StrEnum):
    """What a budget counts."""

    BITS = "bits"
    PERCENT = "%"
    """Of what the layers' weights take in float32."""
    BYTES = "bytes"
    BOPS = "BOPs"


@dataclass(frozen=True)
class Budget:
    """An amount of one unit.

    >>> Budget.parse("40 KB")
    Budget(unit=<Unit.BYTES: 'bytes'>, amount=40000.0)
    >>> print(Budget.parse("2.5 bits"), "or", Budget.parse("12.5%"))
    2.5 bits or 12.5 %
    """

    unit: Unit
    amount: float

    def __post_init__(self) -> None:
        if self.unit not in list(Unit) or not (math.isfinite(self.amount) and self.amount >= 0):
            raise InputError(f"a budget is {BUDGET_FORM}, not {self.amount} of {self.unit!r}")
        object.__setattr__(self, "unit", Unit(self.unit))

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """Read "2.5 bits", "12.5 %", "40 KB", "1 MiB", "0.5 GBOPs"."""
        if not isinstance(text, str):
            raise InputError(f"a budget is {BUDGET_FORM}, not {text!r}")
        match = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-z]+|%)\s*", text.lower())
        try:
            amount = float(match.group(1)) if match else math.nan
        except ValueError:
            amount = math.nan
        name = match.group(2) if match else ""
        if name in ("bit", "bits"):
            unit, factor = Unit.BITS, 1
        elif name == "%":
            unit, factor = Unit.PERCENT, 1
        elif name in ("byte", "bytes"):
            unit, factor = Unit.BYTES, 1
        else:
            unit = Unit.BYTES if name in _BYTES else Unit.BOPS
            factor = _BYTES.get(name) or _OPERATIONS.get(name, 0)
        if not (math.isfinite(amount * factor) and amount * factor > 0):
            raise InputError(f"a budget is {BUDGET_FORM}, not {text!r}")
        return cls(unit, amount * factor)

    def used_by(self, size: "LayerSize", precision: Precision) -> float:
        """What a layer adds to the sum that is limited; in average bits and per cent it is bits times parameters."""
        weight = precision.weight or FULL_BITS
        if self.unit is Unit.BOPS:
            return float(size.operations * weight * (precision.activation or FULL_BITS))
        return float(size.parameters * weight) / (8 if self.unit is Unit.BYTES else 1)

    def used_by_all(self, precisions: Mapping[str, Precision], sizes: Mapping[str, "LayerSize"]) -> "Budget":
        """What a plan for layers of these sizes takes, in this unit."""
        used = sum(self.used_by(size, precisions[layer]) for layer, size in sizes.items())
        return self.amount_of(used, sizes)

    def limit(self, sizes: Mapping[str, "LayerSize"]) -> float:
        """The most that all layers together may use."""
        return self.amount * self._whole(sizes)

    def amount_of(self, used: float, sizes: Mapping[str, "LayerSize"]) -> "Budget":
        """A sum as a budget of this unit."""
        return Budget(self.unit, used / self._whole(sizes))

    def _whole(self, sizes: Mapping[str, "LayerSize"]) -> float:
        if self.unit not in (Unit.BITS, Unit.PERCENT):
            return 1.0
        weights = sum(size.parameters for size in sizes.values())
        return float(weights) if self.unit is Unit.BITS else weights * FULL_BITS / 100

    def rounded_up(self) -> "Budget":
        """To the digits that are shown, so that a budget typed as it is shown is enough."""
        step = 10.0 ** (math.floor(math.log10(self.amount)) - SHOWN_DIGITS + 1)
        return Budget(self.unit, math.ceil(self.amount / step * (1 - 1e-10)) * step)

    def __str__(self) -> str:
        if self.unit in (Unit.BITS, Unit.PERCENT):
            return f"{self.amount:.{SHOWN_DIGITS}g} {self.unit}"
        names = ("B", "KB", "MB", "GB") if self.unit is Unit.BYTES else ("BOPs", "kBOPs", "MBOPs", "GBOPs", "TBOPs")
        step = min(len(names) - 1, max(0, int(math.log10(max(self.amount, 1)) // 3)))
        return f"{self.amount / 1000**step:.{SHOWN_DIGITS}g} {names[step]}"
