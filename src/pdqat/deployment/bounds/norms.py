"""Spans behind norms: of layers, groups, instances and batches."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import torch

from pdqat.deployment.bounds.elementwise import span_of
from pdqat.deployment.bounds.span import SINGLE, UNIT, Span, elementwise_product, total
from pdqat.deployment.bounds.sums import length, spread, terms_of
from pdqat.errors import InputError


def _over_root(x: Span, squares: Span, eps: float, terms: int) -> Span:
    """x / sqrt(mean square of x + eps), which is never beyond the root of how many they are."""
    inverse = Span(1 / (squares.high + eps).sqrt(), 1 / (squares.low + eps).sqrt())
    result = elementwise_product(x, inverse).rounded(SINGLE)
    most = 1.01 * sqrt(terms)
    return Span(result.low.nan_to_num(-most).clamp(-most, most), result.high.nan_to_num(most).clamp(-most, most))


def _standardized(x: Span, axes: list[int], eps: float) -> Span:
    return _over_root(*spread(x, axes), eps, terms_of(x, axes))


def _scaled(x: Span, weight: Any, bias: Any, dims: int) -> Span:
    """weight x x + bias, with a number for each channel; `dims` are those behind the channels."""
    if weight is not None:
        x = elementwise_product(x, _shaped(span_of(weight), dims))
    return x if bias is None else total(x, _shaped(span_of(bias), dims))


def _shaped(vector: Span, dims: int) -> Span:
    return vector.through(lambda end: end.reshape(*end.shape, *[1] * dims))


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
    squares = length(span, axes).through(lambda end: end.square() / terms_of(span, axes))
    return _scaled(_over_root(span, squares, small, terms_of(span, axes)), weight, None, 0)


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
    "layer_norm": layer_norm,
    "native_layer_norm": _first(layer_norm),
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "native_group_norm": _first(_native_group_norm),
    "batch_norm": batch_norm,
    "functional_batch_norm": _functional(batch_norm),
    "functional_instance_norm": _functional(instance_norm),
    "instance_norm": instance_norm,
    "native_batch_norm_legit_no_training": _first(_native_batch_norm),
}
"""By torch's names, with torch's arguments; each may be a span."""
