"""Precision, the bits of one layer, and BitPlan, the bits of all of them.

The low-precision model f^q of the paper is "the network under a BitPlan".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, Self

from pdqat.errors import InputError

MIN_BITS, MAX_BITS = 1, 8
MIXED = "mixed"
"""What the view of a plan by layers is called."""


@dataclass(frozen=True)
class Precision:
    """Bits of a layer's weights and of the activations it reads, 1 to 8 each; None is full precision.

    0 bits of both drop the layer: what it makes is 0. That is for the ends of residual branches (`layers.branches`).

    Examples:
        >>> Precision.parse("2") == Precision(2, 2)
        True
        >>> str(Precision.parse("w4a8"))
        'w4a8'
    """

    weight: int | None
    activation: int | None

    def __post_init__(self) -> None:
        for what, bits in (("weight", self.weight), ("activation", self.activation)):
            if bits is not None and (isinstance(bits, bool) or not isinstance(bits, int)):
                raise InputError(f"{what} bits must be a whole number or None, not {bits!r}")
            if bits is not None and not MIN_BITS <= bits <= MAX_BITS and not self.is_dropped:
                raise InputError(
                    f"{what} bits must be from {MIN_BITS} to {MAX_BITS}, not {bits}; 0 of weights and activations drop "
                    "the layer"
                )

    @classmethod
    def parse(cls, text: "str | int | Precision") -> "Precision":
        """Read "2", "w4a8", "w4" (weights only), "a8" (activations only), "full", or "0", a layer that is dropped."""
        if isinstance(text, Precision):
            return text
        given = str(text).strip().lower()
        if given == "full":
            return FULL
        if re.fullmatch(r"\d{1,9}", given):
            return cls(int(given), int(given))
        match = re.fullmatch(r"(?:w(\d{1,9}))?(?:a(\d{1,9}))?", given)
        if not given or match is None:
            raise InputError(
                f"a precision is a number of bits from 1 to 8, 'w4a8', 'w4', 'a8' or 'full', or 0 where a layer is "
                f"dropped, not {text!r}"
            )
        weight, activation = (int(bits) if bits else None for bits in match.groups())
        return cls(weight, activation)

    def __str__(self) -> str:
        if self == FULL:
            return "full"
        if self.weight == self.activation:
            return str(self.weight)
        weight = "" if self.weight is None else f"w{self.weight}"
        return weight + ("" if self.activation is None else f"a{self.activation}")

    @property
    def is_dropped(self) -> bool:
        """Whether the layer makes nothing but zeros."""
        return self.weight == 0 and self.activation == 0

    @property
    def lowest_bits(self) -> int | None:
        """The smaller of the two bit-widths; None in full precision, and of a layer that is dropped."""
        if self.is_dropped:
            return None
        return min((bits for bits in (self.weight, self.activation) if bits is not None), default=None)


FULL = Precision(None, None)
DROPPED = Precision(0, 0)


class Plan(Protocol):
    """A name, and precisions by layer: a BitPlan, or what `allocate` returns."""

    @property
    def name(self) -> str:
        """Of the view that the plan makes."""

    @property
    def precisions(self) -> Mapping[str, Precision]:
        """Of the layers that it speaks of."""


@dataclass(frozen=True)
class BitPlan:
    """A name and a precision for every quantised layer.

    Examples:
        >>> plan = BitPlan.uniform("2", ["conv0", "conv1"])
        >>> plan.name, str(plan["conv1"])
        ('2-bit', '2')
    """

    name: str
    precisions: Mapping[str, Precision]
    _parsed: dict[str, Precision] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.name):
            raise InputError(f"a plan's name consists of letters, digits, '-' and '_', not {self.name!r}")
        if self.name == "full":
            raise InputError("a plan can't be called 'full': that is the full-precision view's name")
        parsed = {layer: Precision.parse(precision) for layer, precision in self.precisions.items()}
        object.__setattr__(self, "precisions", MappingProxyType(parsed))
        object.__setattr__(self, "_parsed", parsed)  # torch.compile can't look through the proxy

    @classmethod
    def uniform(cls, precision: str | int | Precision, layers: Iterable[str]) -> Self:
        """The plan that gives every layer the same precision, named after it ("2-bit", "w4a8")."""
        precision = Precision.parse(precision)
        text = str(precision)
        return cls(f"{text}-bit" if text.isdigit() else text, dict.fromkeys(layers, precision))

    def __getitem__(self, layer: str) -> Precision:
        return self._parsed.get(layer, FULL)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[str, dict[str, Precision]]]:
        return type(self), (self.name, dict(self.precisions))

    def as_text(self) -> dict[str, str]:
        """The precision of every layer as people write it."""
        return {layer: str(precision) for layer, precision in self.precisions.items()}

    @property
    def low_layers(self) -> list[str]:
        """The layers with bits, neither in full precision nor dropped, in the plan's order."""
        return [layer for layer, precision in self.precisions.items() if precision not in (FULL, DROPPED)]

    @property
    def dropped_layers(self) -> list[str]:
        """The layers that make nothing but zeros."""
        return [layer for layer, precision in self.precisions.items() if precision.is_dropped]

    def lowest_bits_in(self, block: str = "") -> int | None:
        """The smallest bit-width inside a block, or anywhere in the plan; None if all is in full precision."""
        prefix = f"{block}." if block else ""
        bits = (each.lowest_bits for layer, each in self.precisions.items() if layer.startswith(prefix))
        return min((each for each in bits if each is not None), default=None)
