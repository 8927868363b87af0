"""What flows through a network that is being frozen: real numbers, whole numbers, and what is not computed yet."""

from dataclasses import dataclass

from torch import Tensor, fx, nn

from pdqat.layers.layer import PrecisionLayer

SIGNED_BELOW = 129
"""Weights are stored as signed bytes where codes are unsigned and smaller. Processors without VNNI add two products of
unsigned codes and signed weights in 16 bits, which 2 x 255 x 127 exceeds, and OpenVINO's kernels for signed codes and
signed weights give other numbers."""

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


@dataclass(frozen=True, eq=False)
class Product:
    """A quantised layer on codes, not computed yet: what reads it says how it is rounded."""

    name: str
    layer: PrecisionLayer
    codes: fx.Node
    signed: bool
    """Whether weights may be stored as signed bytes: see SIGNED_BELOW."""
    weight: Tensor
    """Whole numbers."""
    promised: bool
    """Whether it should be exact at any price: see EXACT_BITS."""
    scale: Tensor
    """Per channel, of the output's whole numbers."""
    low: Tensor
    high: Tensor
    """Per channel, what the whole numbers can reach."""


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
