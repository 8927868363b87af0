"""Budgets: what a plan may use, in average bits, per cent of float32, bytes or bit operations.

    bits    sum_l parameters_l x weight bits_l / sum_l parameters_l
    %       100 x sum_l parameters_l x weight bits_l / sum_l parameters_l x 32
    bytes   sum_l parameters_l x weight bits_l / 8
    BOPs    sum_l multiply-accumulates_l x weight bits_l x activation bits_l

over the layers that can be quantised; full precision counts as 32 bits, a layer that is dropped as 0. A budget limits
one of these or several at once: "40 KB and 0.5 GBOPs".
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
    "an amount above 0 with a unit, such as '2.5 bits' on average, '12.5 %' of float32, '40 KB' or '0.5 GBOPs', or "
    "several joined by 'and'"
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
class Amount:
    """So much of one unit.

    >>> Amount.parse("40 KB")
    Amount(unit=<Unit.BYTES: 'bytes'>, number=40000.0)
    """

    unit: Unit
    number: float

    def __post_init__(self) -> None:
        if self.unit not in list(Unit) or not (math.isfinite(self.number) and self.number >= 0):
            raise InputError(f"a budget is {BUDGET_FORM}, not {self.number} of {self.unit!r}")
        object.__setattr__(self, "unit", Unit(self.unit))

    @classmethod
    def parse(cls, text: str) -> "Amount":
        """Read "2.5 bits", "12.5 %", "40 KB", "1 MiB", "0.5 GBOPs"."""
        match = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-z]+|%)\s*", text.lower())
        try:
            number = float(match.group(1)) if match else math.nan
        except ValueError:
            number = math.nan
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
        if not (math.isfinite(number * factor) and number * factor > 0):
            raise InputError(f"a budget is {BUDGET_FORM}, not {text!r}")
        return cls(unit, number * factor)

    def used_by(self, size: "LayerSize", precision: Precision) -> float:
        """What a layer adds to the sum that is limited; in average bits and per cent it is bits times parameters."""
        weight, activation = (FULL_BITS if bits is None else bits for bits in (precision.weight, precision.activation))
        if self.unit is Unit.BOPS:
            return float(size.operations * weight * activation)
        return float(size.parameters * weight) / (8 if self.unit is Unit.BYTES else 1)

    def limit(self, sizes: Mapping[str, "LayerSize"]) -> float:
        """The most that all layers together may use."""
        return self.number * self._whole(sizes)

    def of_sum(self, used: float, sizes: Mapping[str, "LayerSize"]) -> "Amount":
        """What a sum of `used_by` over all layers is, in this unit."""
        return Amount(self.unit, used / self._whole(sizes))

    def _whole(self, sizes: Mapping[str, "LayerSize"]) -> float:
        if self.unit not in (Unit.BITS, Unit.PERCENT):
            return 1.0
        weights = sum(size.parameters for size in sizes.values())
        return float(weights) if self.unit is Unit.BITS else weights * FULL_BITS / 100

    def rounded_up(self) -> "Amount":
        """To the digits that are shown, so that a budget typed as it is shown is enough."""
        step = 10.0 ** (math.floor(math.log10(self.number)) - SHOWN_DIGITS + 1)
        return Amount(self.unit, math.ceil(self.number / step * (1 - 1e-10)) * step)

    def __str__(self) -> str:
        if self.unit in (Unit.BITS, Unit.PERCENT):
            return f"{self.number:.{SHOWN_DIGITS}g} {self.unit}"
        names = ("B", "KB", "MB", "GB") if self.unit is Unit.BYTES else ("BOPs", "kBOPs", "MBOPs", "GBOPs", "TBOPs")
        step = min(len(names) - 1, max(0, int(math.log10(max(self.number, 1)) // 3)))
        return f"{self.number / 1000**step:.{SHOWN_DIGITS}g} {names[step]}"


@dataclass(frozen=True)
class Budget:
    """What a plan may use of one unit, or of several at once; or what it does use.

    >>> print(Budget.parse("40 KB and 0.5 gbops"))
    40 KB and 500 MBOPs
    """

    amounts: tuple[Amount, ...]

    def __post_init__(self) -> None:
        units = [amount.unit for amount in self.amounts]
        if not units or len(set(units)) < len(units):
            raise InputError(f"a budget limits at least one unit, and each once, not {[str(unit) for unit in units]}")

    @classmethod
    def of(cls, unit: Unit, number: float) -> "Budget":
        """A budget of one unit."""
        return cls((Amount(unit, number),))

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """Read "2.5 bits", or "40 KB and 0.5 GBOPs"."""
        if not isinstance(text, str):
            raise InputError(f"a budget is {BUDGET_FORM}, not {text!r}")
        return cls(tuple(Amount.parse(part) for part in re.split(r"\band\b", text.lower())))

    def used_by(self, precisions: Mapping[str, Precision], sizes: Mapping[str, "LayerSize"]) -> "Budget":
        """What a plan for layers of these sizes takes, in these units."""
        units = [amount.unit for amount in self.amounts]
        return Budget(tuple(Amount(unit, plan_uses(unit, precisions, sizes)) for unit in units))

    def rounded_up(self) -> "Budget":
        """Every amount to the digits that are shown."""
        return Budget(tuple(amount.rounded_up() for amount in self.amounts))

    def __str__(self) -> str:
        return " and ".join(map(str, self.amounts))


def plan_uses(unit: Unit, precisions: Mapping[str, Precision], sizes: Mapping[str, "LayerSize"]) -> float:
    """What a plan for layers of these sizes takes of a unit."""
    one = Amount(unit, 1.0)
    return one.of_sum(sum(one.used_by(size, precisions[layer]) for layer, size in sizes.items()), sizes).number
