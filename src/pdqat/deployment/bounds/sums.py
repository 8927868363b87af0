"""Spans behind sums over dimensions: means, norms, softmax."""

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import torch
from torch import Tensor

from pdqat.deployment.bounds.elementwise import div, span_of
from pdqat.deployment.bounds.span import SINGLE, UNIT, Span, elementwise_product, total, units_of_sum
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


def _terms(x: Span, axes: Sequence[int]) -> int:
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
    return _added(x, _terms(span_of(x), axes), lambda end: end.sum(axes, keepdim))


def mean(x: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Span:
    """In any order, and divided."""
    axes = _axes(span_of(x), dim)
    return _added(x, _terms(span_of(x), axes), lambda end: end.mean(axes, keepdim), SINGLE)


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


def _spread(x: Span, axes: list[int]) -> tuple[Span, Span]:
    """Numbers without their mean, and their variance, which runtimes compute from these differences.

    The variance's root moves by at most the root mean square of how far the numbers do, since taking the mean away
    makes no vector longer.
    """
    middle, radius, terms = x.middle, x.width / 2, _terms(x, axes)
    units = (units_of_sum(terms) + SINGLE) * UNIT
    rounding = units * x.size.mean(axes, True) + SINGLE * UNIT * x.size
    away = middle - middle.mean(axes, True)
    reach = radius * (1 - 2 / terms) + radius.mean(axes, True) if terms > 1 else torch.zeros_like(radius)
    root, moved = (part.square().mean(axes, True).sqrt() for part in (away, radius + rounding))
    low, high = (root - moved).clamp(min=0).square() * (1 - units), (root + moved).square() * (1 + units)
    return Span(away - reach, away + reach).widened(rounding), Span(low, high)


def _over_root(x: Span, squares: Span, eps: float, terms: int) -> Span:
    """x / sqrt(mean square of x + eps), which is never beyond the root of how many they are."""
    inverse = Span(1 / (squares.high + eps).sqrt(), 1 / (squares.low + eps).sqrt())
    result = elementwise_product(x, inverse).rounded(SINGLE)
    most = 1.01 * sqrt(terms)
    return Span(result.low.nan_to_num(-most).clamp(-most, most), result.high.nan_to_num(most).clamp(-most, most))


def _standardized(x: Span, axes: list[int], eps: float) -> Span:
    return _over_root(*_spread(x, axes), eps, _terms(x, axes))


def _scaled(x: Span, weight: Any, bias: Any, dims: int) -> Span:
    """weight x x + bias, with a number for each channel; `dims` are those behind the channels."""
    if weight is not None:
        x = elementwise_product(x, _shaped(span_of(weight), dims))
    return x if bias is None else total(x, _shaped(span_of(bias), dims))


def _shaped(vector: Span, dims: int) -> Span:
    return vector.through(lambda end: end.reshape(*end.shape, *[1] * dims))


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
    terms = _terms(x, axes)
    result = _spread(x, axes)[1].through(lambda end: end * terms / max(terms - less, 0)).rounded(SINGLE)
    return result if keepdim else result.through(lambda end: end.squeeze(axes))


def deviation(x: Span, *arguments: Any, **named: Any) -> Span:
    """The variance's root."""
    return variance(x, *arguments, **named).through(lambda end: end.clamp(min=0).sqrt()).rounded(SINGLE)


def layer_norm(
    x: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, _: bool = True
) -> Span:
    """Over the last dimensions."""
    span = span_of(x)
    axes = list(range(span.low.dim() - len(shape), span.low.dim()))
    return _scaled(_standardized(span, axes, eps), weight, bias, 0)


def rms_norm(x: Any, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Span:
    """Over the root of the mean square."""
    span = span_of(x)
    axes = list(range(span.low.dim() - len(shape), span.low.dim()))
    small = torch.finfo(torch.float32).eps if eps is None else eps
    squares = _vector_norm(span, axes).through(lambda end: end.square() / _terms(span, axes))
    return _scaled(_over_root(span, squares, small, _terms(span, axes)), weight, None, 0)


def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, _: bool = True) -> Span:
    """Over groups of channels."""
    span = span_of(x)
    shape = span.low.shape
    grouped = span.through(lambda end: end.reshape(len(end), groups, -1))
    normalized = _standardized(grouped, [2], eps).through(lambda end: end.reshape(shape))
    return _scaled(normalized, weight, bias, len(shape) - 2)


def batch_norm(
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Span:
    """With running statistics: one scale and one shift a channel."""
    if training or mean is None:
        raise InputError("a batch norm with the statistics of the batch has no bounds")
    span = span_of(x)
    scale = torch.rsqrt(variance.detach().double() + eps)
    scale = scale if weight is None else scale * weight.detach().double()
    moved = mean.detach().double() * scale
    bias = torch.zeros_like(moved) if bias is None else bias.detach().double()
    scale, shift, size = (
        vector.view(-1, *[1] * (span.low.dim() - 2)) for vector in (scale, bias - moved, bias.abs() + moved.abs())
    )
    ends = span.low * scale + shift, span.high * scale + shift
    result = Span(torch.minimum(*ends), torch.maximum(*ends))
    return result.widened(SINGLE * UNIT * (span.size * scale.abs() + size))


def instance_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    mean: Any = None,
    variance: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Span:
    """Each channel of each sample by itself."""
    if not use_input_stats:
        return batch_norm(x, weight, bias, mean, variance, False, momentum, eps)
    return group_norm(x, span_of(x).low.shape[1], weight, bias, eps)


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


def _vector_norm(x: Span, axes: list[int], order: float = 2, keep: bool = True) -> Span:
    """It moves by at most the norm of how far the numbers do."""
    middle, moved = (torch.linalg.vector_norm(part, order, axes, keep) for part in (x.middle, x.width / 2))
    size = torch.linalg.vector_norm(x.size, order, axes, keep)
    result = Span((middle - moved).clamp(min=0), middle + moved)
    result = result.widened((units_of_sum(_terms(x, axes)) + SINGLE) * UNIT * size)
    return Span(result.low.clamp(min=0), result.high)


def vector_norm(x: Any, order: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Span:
    """The root of squares, or the sum of sizes."""
    if order not in (1, 2):
        raise InputError(f"a norm of order {order}, other than 1 and 2, has no bounds")
    span = span_of(x)
    return _vector_norm(span, _axes(span, dim), float(order), keepdim)


def normalize(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Span:
    """Divided by its norm."""
    return div(x, vector_norm(x, p, dim, True).through(lambda end: end.clamp(min=eps)))


def _first(rule: Callable[..., Span]) -> Callable[..., tuple[Span]]:
    return lambda *arguments: (rule(*arguments),)


def _functional(rule: Callable[..., Span]) -> Callable[..., Span]:
    """With the arguments in the order of torch.nn.functional."""

    def through(
        x: Any,
        running_mean: Any = None,
        running_var: Any = None,
        weight: Any = None,
        bias: Any = None,
        flag: bool | None = None,
        momentum: float = 0.1,
        eps: float = 1e-5,
        **named: bool,
    ) -> Span:
        chosen = named.get("training", named.get("use_input_stats", rule is instance_norm if flag is None else flag))
        return rule(x, weight, bias, running_mean, running_var, chosen, momentum, eps)

    return through


def _native_group_norm(x: Any, weight: Any, bias: Any, n: int, c: int, hw: int, groups: int, eps: float) -> Span:
    return group_norm(x, groups, weight, bias, eps)


def _native_batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float) -> Span:
    return batch_norm(x, weight, bias, mean, var, False, momentum, eps)


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
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "native_layer_norm": _first(layer_norm),
    "group_norm": group_norm,
    "batch_norm": batch_norm,
    "native_group_norm": _first(_native_group_norm),
    "instance_norm": instance_norm,
    "native_batch_norm_legit_no_training": _first(_native_batch_norm),
    "functional_batch_norm": _functional(batch_norm),
    "functional_instance_norm": _functional(instance_norm),
    "linalg_vector_norm": vector_norm,
    "norm": vector_norm,
    "normalize": normalize,
}
"""By torch's names, with torch's arguments; each may be a span."""
