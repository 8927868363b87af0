"""Spans behind products of tensors: of matrices, convolutions, attention."""

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pdqat.deployment.bounds.elementwise import add, mul, span_of
from pdqat.deployment.bounds.masks import where
from pdqat.deployment.bounds.span import SINGLE, UNIT, Span, units_of_sum, within_both
from pdqat.deployment.bounds.sums import softmax
from pdqat.errors import InputError


def bilinear(first: Any, second: Any, terms: int, apply: Callable[[Tensor, Tensor], Tensor]) -> Span:
    """Sums of so many products of two tensors' numbers, by middles and widths, in any order.

    |xy - ab| <= |a| s + r |b| + r s for |x - a| <= r and |y - b| <= s.
    """
    x, y = span_of(first), span_of(second)
    middle = apply(x.middle, y.middle)
    if x.whole and y.whole and not bool(x.width.any() or y.width.any()):
        return Span.of(middle, whole=True)
    error = (units_of_sum(terms) + SINGLE) * UNIT * apply(x.size, y.size)
    if bool(x.width.any()):
        error = error + apply(x.width / 2, y.size)
    if bool(y.width.any()):
        error = error + apply(x.middle.abs(), y.width / 2)
    return Span.of(middle).widened(error)


def matmul(x: Any, other: Any) -> Span:
    """Of matrices, vectors, and batches of them."""
    return bilinear(x, other, span_of(x).low.shape[-1], torch.matmul)


def linear(x: Any, weight: Any, bias: Any = None) -> Span:
    """With a transposed matrix."""
    product = bilinear(x, weight, span_of(x).low.shape[-1], F.linear)
    return product if bias is None else _plus_bias(product, bias, 0)


def addmm(added: Any, x: Any, other: Any, *, beta: float = 1, alpha: float = 1) -> Span:
    """beta x added + alpha x product; the product may be begun with what is added."""
    product = matmul(x, other)
    product = product if alpha == 1 else mul(product, alpha)
    term = span_of(added) if beta == 1 else mul(added, beta)
    units = (units_of_sum(span_of(x).low.shape[-1]) + SINGLE) * UNIT
    return add(product, term.widened(units * term.size))


def _plus_bias(product: Span, bias: Any, dims: int, units: float = SINGLE) -> Span:
    term = span_of(bias).through(lambda end: end.reshape(*end.shape, *[1] * dims))
    return add(product, term.widened(units * UNIT * term.size))


def einsum(equation: str, *operands: Any) -> Span:
    """By its equation, of two tensors."""
    given = operands[0] if isinstance(operands[0], tuple | list) else operands
    if len(given) != 2:
        raise InputError(f"einsum of {len(given)} tensors has no bounds; of two it has")
    inputs, output = equation.replace(" ", "").split("->")
    first, second = (span_of(operand) for operand in given)
    letters = dict(zip(inputs.replace(",", ""), (*first.low.shape, *second.low.shape), strict=False))
    if "." in equation:
        raise InputError("einsum with dots has no bounds")
    terms = prod(size for letter, size in letters.items() if letter not in output)
    return bilinear(first, second, terms, lambda x, y: torch.einsum(equation, x, y))


def _convolved(function: Callable[..., Tensor], x: Any, weight: Any, bias: Any, terms: int, **options: Any) -> Span:
    product = bilinear(x, weight, terms, lambda one, other: function(one, other, None, **options))
    dims = product.low.dim() - 2
    return product if bias is None else _plus_bias(product, bias, dims, units_of_sum(terms) + SINGLE)


def convolution(function: Callable[..., Tensor]) -> Callable[..., Span]:
    """Of one, two or three dimensions."""

    def through(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Span:
        terms = span_of(weight).low[0].numel()
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return _convolved(function, x, weight, bias, terms, **options)

    return through


def transposed_convolution(function: Callable[..., Tensor]) -> Callable[..., Span]:
    """A convolution's gradient by its input."""

    def through(
        x: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Span:
        shape = span_of(weight).low.shape
        terms = shape[0] // groups * shape[2:].numel()
        options = {"stride": stride, "padding": padding, "output_padding": output_padding}
        return _convolved(function, x, weight, bias, terms, groups=groups, dilation=dilation, **options)

    return through


CONVOLUTIONS = {
    **{f"conv{dims}d": convolution(getattr(F, f"conv{dims}d")) for dims in (1, 2, 3)},
    **{f"conv_transpose{dims}d": transposed_convolution(getattr(F, f"conv_transpose{dims}d")) for dims in (1, 2, 3)},
}


def any_convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Span:
    """Either of the two, as torch's one operator has it."""
    dims = span_of(weight).low.dim() - 2
    if transposed:
        rule = CONVOLUTIONS[f"conv_transpose{dims}d"]
        return rule(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return CONVOLUTIONS[f"conv{dims}d"](x, weight, bias, stride, padding, dilation, groups)


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Span:
    """softmax(scale x query x keys, where the mask lets them) x values, and never beyond the values."""
    by = 1 / sqrt(span_of(query).low.shape[-1]) if scale is None else scale
    scores = matmul(query, span_of(key).through(lambda end: end.mT)).through(lambda end: end * by).rounded(SINGLE)
    if is_causal:
        attn_mask = torch.ones(scores.low.shape[-2:], dtype=torch.bool).tril()
    if isinstance(attn_mask, Tensor) and attn_mask.dtype == torch.bool:
        scores = where(attn_mask, scores, -torch.inf)
    elif attn_mask is not None:
        scores = add(scores, attn_mask)
    result, values = matmul(softmax(scores, -1), value), span_of(value)
    among = Span(values.low.amin(-2, True), values.high.amax(-2, True))
    return within_both(result, among.rounded(2 * units_of_sum(scores.low.shape[-1]) + SINGLE))


RULES: dict[str, Callable[..., Any]] = {
    "matmul": matmul,
    "mm": matmul,
    "bmm": matmul,
    "linear": linear,
    "addmm": addmm,
    "baddbmm": addmm,
    **CONVOLUTIONS,
    "convolution": any_convolution,
    "einsum": einsum,
    "scaled_dot_product_attention": attention,
}
"""By torch's names, with torch's arguments; each may be a span."""
