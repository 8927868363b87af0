"""Spans behind sums over dimensions: means, lengths, softmax."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from pdqat.deployment.bounds.elementwise import div, span_of
from pdqat.deployment.bounds.span import SINGLE, UNIT, Span, units_of_sum
from pdqat.errors import InputError

FURTHEST = 100.0
"""Behind the largest number, from which on exp is 0 in float32."""
TINY = 1e-13
"""More than float64 loses in sums of positive numbers."""

Dims = int | Sequence[int] | None


def _axes(x: Span, dims: Dims) -> list[int]:
    count = x.low.dim()
    given = range(count) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    return [dim % count for dim in given]


def terms_of(x: Span, axes: Sequence[int]) -> int:
    """How many numbers are added over the axes."""
    return prod(x.low.shape[axis] for axis in axes)


def _added(x: Any, terms: int, apply: Callable[[Tensor], Tensor], more: float = 0.0) -> Span:
    """Sums in any order: v - e |v| rises with v, so the ends have the errors of their own terms."""
    span = span_of(x)
    result = Span(apply(span.low), apply(span.high), span.whole)
    if span.whole and not more:
        return result
    units = (units_of_sum(terms) + more) * UNIT
    return result.moved(units * apply(span.low.abs()), units * apply(span.high.abs()))


def summed(x: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Span:
    """In any order."""
    axes = _axes(span_of(x), dim)
    return _added(x, terms_of(span_of(x), axes), lambda end: end.sum(axes, keepdim))


def mean(x: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Span:
    """In any order, and divided."""
    axes = _axes(span_of(x), dim)
    return _added(x, terms_of(span_of(x), axes), lambda end: end.mean(axes, keepdim), SINGLE)


def cumsum(x: Any, dim: int, *, dtype: Any = None) -> Span:
    """Sums of all that stand before."""
    return _added(x, span_of(x).low.shape[dim], lambda end: end.cumsum(dim))


def _place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Where the largest or smallest number is; between numbers that rounding can change nobody knows."""

    def through(x: Span, dim: int | None = None, keepdim: bool = False) -> Tensor:
        if bool(x.width.any()):
            raise InputError("the place of the largest of numbers that rounding can change has no bounds")
        return function(x.low, dim, keepdim)

    return through


def spread(x: Span, axes: list[int]) -> tuple[Span, Span]:
    """Numbers without their mean, and their variance, which runtimes compute from these differences.

    The variance's root moves by at most the root mean square of how far the numbers do, since taking the mean away
    makes no vector longer.
    """
    middle, radius, terms = x.middle, x.width / 2, terms_of(x, axes)
    units = (units_of_sum(terms) + SINGLE) * UNIT
    rounding = units * x.size.mean(axes, True) + SINGLE * UNIT * x.size
    away = middle - middle.mean(axes, True)
    reach = radius * (1 - 2 / terms) + radius.mean(axes, True) if terms > 1 else torch.zeros_like(radius)
    root, moved = (part.square().mean(axes, True).sqrt() for part in (away, radius + rounding))
    low, high = (root - moved).clamp(min=0).square() * (1 - units), (root + moved).square() * (1 + units)
    return Span(away - reach, away + reach).widened(rounding), Span(low, high)


def variance(
    x: Span,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Span:
    """Of the numbers along dimensions."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes = _axes(x, dim)
    less = float(unbiased) if correction is None else float(correction)
    terms = terms_of(x, axes)
    result = spread(x, axes)[1].through(lambda end: end * terms / max(terms - less, 0)).rounded(SINGLE)
    return result if keepdim else result.through(lambda end: end.squeeze(axes))


def deviation(x: Span, *arguments: Any, **named: Any) -> Span:
    """The variance's root."""
    return variance(x, *arguments, **named).through(lambda end: end.clamp(min=0).sqrt()).rounded(SINGLE)


def softmax(x: Any, dim: int, *_: Any, dtype: Any = None, _stacklevel: int = 3) -> Span:
    """The smallest part is that of a low number among high ones, and the reverse.

    The difference to the largest number is rounded before exp is taken of it.
    """
    span = span_of(x)
    top = span.high.amax(dim, True)
    low, high = torch.exp(span.low - top), torch.exp(span.high - top)
    all_low, all_high = low.sum(dim, True), high.sum(dim, True)
    least = low / (all_high - high + low + TINY * all_high)
    most = high / ((all_low - low + high) * (1 - TINY) - TINY * all_low).clamp(min=0)
    least, most = least.nan_to_num(0.0), most.nan_to_num(1.0).clamp(max=1)
    behind = (top - span.low).clamp(max=FURTHEST).nan_to_num(FURTHEST)
    units = 2 * (behind + (most * behind).sum(dim, True).clamp(max=FURTHEST))
    units = units + units_of_sum(span.low.shape[dim]) + 2 * SINGLE
    result = Span(least, most).widened(units * UNIT * most)
    return Span(result.low.clamp(min=0), result.high)


def log_softmax(x: Any, dim: int, *_: Any, dtype: Any = None, _stacklevel: int = 3) -> Span:
    """Numbers without the logarithm of the sum of their exponentials."""
    span = span_of(x)
    low, high = (end.logsumexp(dim, True) for end in (span.low, span.high))
    result = Span(span.low - high, (span.high - low).clamp(max=0))
    units = units_of_sum(span.low.shape[dim]) + 2 * SINGLE
    scale = result.size + span.size + span.size.amax(dim, True) + 1
    return result.widened(units * UNIT * scale)


def length(x: Span, axes: list[int], order: float = 2, keep: bool = True) -> Span:
    """It moves by at most the norm of how far the numbers do."""
    middle, moved = (torch.linalg.vector_norm(part, order, axes, keep) for part in (x.middle, x.width / 2))
    size = torch.linalg.vector_norm(x.size, order, axes, keep)
    result = Span((middle - moved).clamp(min=0), middle + moved)
    result = result.widened((units_of_sum(terms_of(x, axes)) + SINGLE) * UNIT * size)
    return Span(result.low.clamp(min=0), result.high)


def vector_norm(x: Any, order: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Span:
    """The root of squares, or the sum of sizes."""
    if order not in (1, 2):
        raise InputError(f"a norm of order {order}, other than 1 and 2, has no bounds")
    span = span_of(x)
    return length(span, _axes(span, dim), float(order), keepdim)


def normalize(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Span:
    """Divided by its norm."""
    return div(x, vector_norm(x, p, dim, True).through(lambda end: end.clamp(min=eps)))


RULES: dict[str, Callable[..., Any]] = {
    "sum": summed,
    "mean": mean,
    "cumsum": cumsum,
    "var": variance,
    "std": deviation,
    "argmax": _place(torch.argmax),
    "argmin": _place(torch.argmin),
    "softmax": softmax,
    "log_softmax": log_softmax,
    "linalg_vector_norm": vector_norm,
    "norm": vector_norm,
    "normalize": normalize,
}
"""By torch's names, with torch's arguments; each may be a span."""
