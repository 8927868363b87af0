"""Spans behind functions of single numbers.

Runtimes compute most of them by polynomials of their own. How far these are from the function was measured in ONNX
Runtime and OpenVINO on dense grids, and is taken at least twice (`Error`). OpenVINO's softplus is the furthest: 8e-6.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pdqat.deployment.bounds.span import UNIT, Span, difference, elementwise_product, total
from pdqat.errors import InputError


@dataclass(frozen=True)
class Error:
    """How far f(x) in float32 is from f(x): absolute + relative |f(x)| + of_input |x|."""

    relative: float = 8 * UNIT
    absolute: float = 0.0
    of_input: float = 0.0

    def around(self, result: Span, given: Span) -> Span:
        """The span of a result, with what float32 adds."""
        fixed = self.absolute + (self.of_input * given.size if self.of_input else 0.0)
        return result.moved(self.relative * result.low.abs() + fixed, self.relative * result.high.abs() + fixed)


RISING: dict[str, Error] = {
    "exp": Error(16 * UNIT),
    "log": Error(8 * UNIT, 4 * UNIT),
    "sqrt": Error(4 * UNIT),
    "erf": Error(16 * UNIT, 16 * UNIT),
    "tanh": Error(8 * UNIT, 8 * UNIT),
    "sigmoid": Error(8 * UNIT, 8 * UNIT),
    "leaky_relu": Error(4 * UNIT),
    "elu": Error(16 * UNIT, 8 * UNIT),
    "selu": Error(16 * UNIT, 16 * UNIT),
    "celu": Error(16 * UNIT, 16 * UNIT),
    "softplus": Error(16 * UNIT, 256 * UNIT),
    "hardsigmoid": Error(4 * UNIT, 2 * UNIT),
}
"""They never fall."""


@dataclass(frozen=True)
class Valley:
    """A function that falls down to one place, and rises from there."""

    place: float
    error: Error

    def through(self, given: Span, function: Callable[[Tensor], Tensor]) -> Span:
        """Its span: the lowest is at an end, or in the valley."""
        ends = function(given.low), function(given.high)
        lowest = function(torch.full_like(given.low, self.place))
        inside = (given.low <= self.place) & (self.place <= given.high)
        low = torch.where(inside, lowest, torch.minimum(*ends))
        return self.error.around(Span(low, torch.maximum(*ends)), given)


VALLEYS: dict[str, Valley] = {
    "silu": Valley(-1.2784645427610738, Error(8 * UNIT, 0, 8 * UNIT)),
    "gelu": Valley(-0.7517915246935645, Error(8 * UNIT, 0, 16 * UNIT)),
    "mish": Valley(-1.1924312145154, Error(16 * UNIT, 0, 256 * UNIT)),
    "hardswish": Valley(-1.5, Error(8 * UNIT, 0, 4 * UNIT)),
    "abs": Valley(0.0, Error(0.0)),
}
TANH_VALLEY = -0.7524614220710163
"""Of the GELU that is approximated by tanh."""


def span_of(operand: Any) -> Span:
    """Of a span itself, a tensor, or a number, which float32 rounds."""
    if isinstance(operand, Span):
        return operand
    if isinstance(operand, Tensor):
        return Span.of(operand, whole=not operand.is_floating_point())
    exact, single = torch.tensor(float(operand), dtype=torch.float64), torch.tensor(float(operand)).double()
    return Span(torch.minimum(exact, single), torch.maximum(exact, single), whole=isinstance(operand, int))


def _scaled(operand: Any, alpha: float) -> Span:
    return span_of(operand) if alpha == 1 else elementwise_product(span_of(operand), span_of(alpha))


def add(x: Any, other: Any, *, alpha: float = 1) -> Span:
    """x + alpha x other."""
    return total(span_of(x), _scaled(other, alpha))


def sub(x: Any, other: Any, *, alpha: float = 1) -> Span:
    """x - alpha x other."""
    return difference(span_of(x), _scaled(other, alpha))


def rsub(x: Any, other: Any, alpha: float = 1) -> Span:
    """other - alpha x x."""
    return difference(span_of(other), _scaled(x, alpha))


def mul(x: Any, other: Any) -> Span:
    """Number by number."""
    if x is other:
        return square(x)
    return elementwise_product(span_of(x), span_of(other))


def square(x: Any) -> Span:
    """Never below 0."""
    span = span_of(x)
    return elementwise_product(span, span)


def negative(x: Span) -> Span:
    """The ends change places."""
    return Span(-x.high, -x.low, x.whole)


def reciprocal(x: Any) -> Span:
    """1 / x: anything, where x may be 0."""
    span = span_of(x)
    crosses = (span.low <= 0) & (span.high >= 0)
    ends = [torch.where(crosses, end, 1 / at) for end, at in ((-torch.inf, span.high), (torch.inf, span.low))]
    return Span(ends[0], ends[1]).rounded()


def div(x: Any, other: Any, *, rounding_mode: str | None = None) -> Span:
    """x / other, also computed as a product with the reciprocal."""
    if rounding_mode is not None:
        raise InputError(f"a division rounded by {rounding_mode!r} has no bounds")
    return elementwise_product(span_of(x), reciprocal(other)).rounded()


def rsqrt(x: Span) -> Span:
    """Falls; anything above, where x may be 0."""
    low, high = torch.rsqrt(x.high), torch.where(x.low > 0, torch.rsqrt(x.low.clamp(min=0)), torch.inf)
    return Span(low, high).rounded(8)


def power(x: Span, exponent: Any) -> Span:
    """To a constant power: rising for odd ones and above 0, a valley for even ones."""
    by = float(exponent.middle if isinstance(exponent, Span) else exponent)
    if by == 2:
        return square(x)
    error = Error((16 + 8 * abs(by)) * UNIT)
    if by > 0 and by % 2 == 0:
        return Valley(0.0, error).through(x, lambda end: end**by)
    if by > 0 and (by % 2 == 1 or bool((x.low >= 0).all())):
        return error.around(x.through(lambda end: end**by), x)
    if by < 0 and bool((x.low > 0).all()):
        return error.around(Span(x.high**by, x.low**by), x)
    raise InputError(f"numbers below 0 to the power {by} have no bounds")


def gelu(x: Span, approximate: str = "none") -> Span:
    """Both forms."""
    valley = VALLEYS["gelu"] if approximate == "none" else Valley(TANH_VALLEY, VALLEYS["gelu"].error)
    return valley.through(x, lambda end: F.gelu(end, approximate=approximate))


def prelu(x: Span, weight: Any) -> Span:
    """Slopes below 0 may be negative, and may be spans."""
    slopes = span_of(weight)
    shape = (-1, *[1] * (x.low.dim() - 2)) if x.low.dim() > 1 else (-1,)
    below = Span(x.low.clamp(max=0), x.high.clamp(max=0))
    falling = elementwise_product(below, Span(slopes.low.view(shape), slopes.high.view(shape)))
    low, high = (
        torch.where(end > 0, end, falling_end) for end, falling_end in ((x.low, falling.low), (x.high, falling.high))
    )
    crosses = (x.low < 0) & (x.high > 0)
    high = torch.where(crosses, torch.maximum(high, falling.high), high)
    low = torch.where(crosses, torch.minimum(low, falling.low), low)
    return Span(low, high).rounded()


def wave(function: Callable[[Tensor], Tensor]) -> Callable[[Span], Span]:
    """Sine or cosine: they move as far as their input at most."""

    def through(x: Span) -> Span:
        result = Span.of(function(x.middle)).widened(x.width / 2 + 8 * UNIT + 2 * UNIT * x.size)
        return Span(result.low.clamp(min=-1 - 8 * UNIT), result.high.clamp(max=1 + 8 * UNIT))

    return through


def clamp(x: Any, min: Any = None, max: Any = None) -> Span:  # noqa: A002
    """Within limits, which may be spans."""
    span = span_of(x)
    for limit, choose in ((min, torch.maximum), (max, torch.minimum)):
        if limit is not None:
            other = span_of(limit)
            span = Span(choose(span.low, other.low), choose(span.high, other.high), span.whole)
    return span


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Span:
    """Within limits."""
    return clamp(x, min_val, max_val)


def converted(x: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """In another type: real numbers stay spans, whole ones become numbers where they are known."""
    like = function(x.middle.float(), *args, **kwargs)
    if like.is_floating_point():
        return x
    if not bool((x.low == x.high).all()):
        raise InputError("real numbers that rounding can change have no bounds as whole numbers")
    return function(x.low, *args, **kwargs)


RULES: dict[str, Callable[..., Any]] = {
    "add": add,
    "sub": sub,
    "rsub": rsub,
    "mul": mul,
    "div": div,
    "square": square,
    "neg": negative,
    "reciprocal": reciprocal,
    "rsqrt": rsqrt,
    "pow": power,
    "gelu": gelu,
    "prelu": prelu,
    "sin": wave(torch.sin),
    "cos": wave(torch.cos),
    "hardtanh": hardtanh,
    "clamp": clamp,
    "clamp_min": clamp,
    "maximum": lambda x, other: clamp(x, min=other),
    "minimum": lambda x, other: clamp(x, max=other),
    "clamp_max": lambda x, max: clamp(x, max=max),  # noqa: A006
}
"""By torch's names, with torch's arguments; each may be a span."""
