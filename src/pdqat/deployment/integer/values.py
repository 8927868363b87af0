"""What flows through a network that is being frozen: real numbers, whole numbers, and what is not computed yet."""

from dataclasses import dataclass

from torch import Tensor, fx, nn

from pdqat.layers.layer import PrecisionLayer

LARGEST_WEIGHT = 127
"""That a byte holds with either sign."""
LARGEST_PAIR = 2**15 - 1
"""Processors without VNNI add two products of unsigned codes and signed weights in 16 bits."""


def largest_signed(low: int, high: int) -> int:
    """The largest weight that may be stored as a signed byte, for codes from low to high: fast, and right everywhere.

    64 for codes up to 255, of which two products with 127 exceed 16 bits. None, 0, for signed codes: OpenVINO's kernels
    for signed codes and signed weights give other numbers. Larger weights are stored unsigned, for which kernels are
    slow.

    >>> largest_signed(0, 15), largest_signed(0, 255), largest_signed(-127, 127)
    (127, 64, 0)
    """
    return 0 if low < 0 else min(LARGEST_WEIGHT, LARGEST_PAIR // (2 * high))


EXACT_BITS = 2
"""Where a layer has no more bits, one code flips others behind it: all layers of such a plan then give the codes of
float32 even where that takes them a slower kernel."""


@dataclass(frozen=True, eq=False)
class Real:
    """A tensor of real numbers."""

    node: fx.Node


@dataclass(frozen=True, eq=False)
class Whole:
    """Whole numbers of a step, from low to high; stored with the zero points of their summands, together `above`."""

    node: fx.Node
    step: float
    low: int
    high: int
    above: int
    channels: int = 0
    """Of an image; 0 for what is none, or not a plain sum of summands."""
    summands: int = 1


@dataclass(frozen=True, eq=False)
class Product:
    """A quantised layer on codes, not computed yet: what reads it says how it is rounded."""

    name: str
    layer: PrecisionLayer
    codes: fx.Node
    largest_signed: int
    """The largest weight with which the file's weights may be signed bytes."""
    weight: Tensor
    """Whole numbers."""
    promised: bool
    """Whether it should be exact at any price: see EXACT_BITS."""
    scale: Tensor
    """Per channel, of the output's whole numbers."""
    low: Tensor
    high: Tensor
    """Per channel, what the whole numbers can reach."""

    @property
    def is_signed(self) -> bool:
        """Whether the weights as they are may be stored as signed bytes."""
        return int(self.weight.abs().max()) <= self.largest_signed


@dataclass(frozen=True, eq=False)
class Through:
    """Functions of single numbers, per channel, on one of the above; not computed yet."""

    base: "Real | Whole | Product"
    functions: tuple[nn.Module, ...]


Value = Real | Whole | Product | Through


def through(value: Value, function: nn.Module) -> Through:
    """A value behind one more function."""
    base, before = (value.base, value.functions) if isinstance(value, Through) else (value, ())
    return Through(base, (*before, function))
