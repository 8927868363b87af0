"""Spans behind comparisons and masks: where rounding decides, a mask is a span from 0 to 1."""

from collections.abc import Callable
from typing import Any

import torch

from pdqat.deployment.bounds.elementwise import clamp, span_of
from pdqat.deployment.bounds.span import Span


def compared(name: str) -> Callable[[Any, Any], Any]:
    """A mask; where rounding decides, a span from 0 to 1."""

    def compare(x: Any, other: Any) -> Any:
        first, second = span_of(x), span_of(other)
        if name in ("lt", "le"):
            first, second = second, first
        if name in ("gt", "lt"):
            certain, possible = first.low > second.high, first.high > second.low
        elif name in ("ge", "le"):
            certain, possible = first.low >= second.high, first.high >= second.low
        else:
            possible = (first.low <= second.high) & (second.low <= first.high)
            certain = possible & (first.width == 0) & (second.width == 0)
        mask = certain if torch.equal(certain, possible) else Span(certain.double(), possible.double(), whole=True)
        return negated(mask) if name == "ne" else mask

    return compare


def negated(mask: Any) -> Any:
    """The opposite of a mask."""
    return Span(1 - mask.high, 1 - mask.low, whole=True) if isinstance(mask, Span) else ~mask


def both(x: Any, other: Any) -> Any:
    """Where two masks are, one of which rounding decides."""
    return clamp(_mask(x), max=_mask(other))


def either(x: Any, other: Any) -> Any:
    """Where one of two masks is."""
    return clamp(_mask(x), min=_mask(other))


def _mask(mask: Any) -> Span:
    return mask if isinstance(mask, Span) else Span.of(mask, whole=True)


def where(condition: Any, x: Any, other: Any) -> Span:
    """One of two; where rounding decides which, both."""
    mask, first, second = _mask(condition), span_of(x), span_of(other)
    whole = first.whole and second.whole
    either_low, either_high = torch.minimum(first.low, second.low), torch.maximum(first.high, second.high)
    low = torch.where(mask.low > 0, first.low, torch.where(mask.high > 0, either_low, second.low))
    high = torch.where(mask.low > 0, first.high, torch.where(mask.high > 0, either_high, second.high))
    return Span(low, high, whole)


def masked_fill(x: Any, mask: Any, value: Any) -> Span:
    """A number where the mask says."""
    return where(mask, value, x)


RULES: dict[str, Callable[..., Any]] = {
    "where": where,
    "masked_fill": masked_fill,
    **{name: compared(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **dict.fromkeys(("logical_not", "bitwise_not"), negated),
    **dict.fromkeys(("logical_and", "bitwise_and"), both),
    **dict.fromkeys(("logical_or", "bitwise_or"), either),
    "logical_xor": compared("ne"),
}
"""By torch's names, with torch's arguments; each may be a span."""
