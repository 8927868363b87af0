"""Spans: a lower and an upper end for every number of a tensor, in float64, and what float32 adds to them.

A float32 operation is off by at most u = 2^-24 of its result. A sum of n terms, added in any order, is off by at most
n u times the sum of the terms' sizes. Long sums never reach that: if roundings are independent and as often up as
down, the error stays below s sqrt(n) u times that sum with a probability of at least 1 - 2 n exp(-s^2 / 2) (Higham and
Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019). The smaller of the two
bounds is taken, with s = 16: less than one sum in 10^50 would exceed the second.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

UNIT = 2.0**-24
"""By which part float32 rounds a number."""
SAFETY = 16.0
"""The s above."""
SINGLE = 8.0
"""Units for a handful of operations on single numbers: a norm with its constants, a scale and a shift."""
LARGEST = torch.finfo(torch.float32).max
SMALLEST = 2.0**-100
"""What is below may be flushed to zero."""


@dataclass(frozen=True, eq=False)
class Span:
    """Numbers that are known to lie between two ends."""

    low: Tensor
    high: Tensor
    whole: bool = False
    """Whether they are whole numbers, which float32 adds without an error."""

    @classmethod
    def of(cls, tensor: Tensor, whole: bool = False) -> "Span":
        """Numbers that are known."""
        exactly = tensor.double()
        return cls(exactly, exactly, whole)

    @property
    def middle(self) -> Tensor:
        """Of both ends."""
        return self.low if self.high is self.low else (self.low + self.high) / 2

    @property
    def single(self) -> Tensor:
        """The lower ends in float32: for what asks for shape and type only."""
        return self.low.float()

    @property
    def width(self) -> Tensor:
        """From one end to the other."""
        return self.high - self.low

    @property
    def size(self) -> Tensor:
        """The largest absolute value between the ends."""
        return torch.maximum(self.low.abs(), self.high.abs())

    def moved(self, below: Tensor | float, above: Tensor | float) -> "Span":
        """With both ends moved outwards; float32 has no numbers beyond its largest."""
        low, high = self.low - below - SMALLEST, self.high + above + SMALLEST
        return Span(torch.where(low < -LARGEST, -torch.inf, low), torch.where(high > LARGEST, torch.inf, high))

    def widened(self, error: Tensor | float) -> "Span":
        """With both ends moved outwards alike."""
        return self.moved(error, error)

    def rounded(self, units: float = 1.0) -> "Span":
        """As float32 holds it after so many roundings; of all numbers the ends move outwards furthest."""
        return self.moved(units * UNIT * self.low.abs(), units * UNIT * self.high.abs())

    def through(self, rising: Callable[[Tensor], Tensor]) -> "Span":
        """Behind a function that never falls and is computed without an error."""
        low = rising(self.low)
        return Span(low, low if self.high is self.low else rising(self.high), self.whole)

    def holds(self, tensor: Tensor) -> Tensor:
        """Where a tensor's numbers lie between the ends: what is not a number never does."""
        return (self.low <= tensor) & (tensor <= self.high)

    def rows(self, index: Tensor) -> "Span":
        """Of some samples."""
        return Span(self.low[index], self.high[index], self.whole)


def within_both(first: Span, second: Span) -> Span:
    """Numbers that lie in two spans."""
    return Span(torch.maximum(first.low, second.low), torch.minimum(first.high, second.high))


def units_of_sum(terms: int) -> float:
    """How many units of the sum of its terms' sizes a sum can be off by.

    >>> units_of_sum(9), units_of_sum(1024)
    (9, 512.0)
    """
    return min(terms, SAFETY * sqrt(terms))


def product(
    span: Span, weight: Tensor, bias: Tensor | None, apply: Callable[[Tensor, Tensor, Tensor | None], Tensor]
) -> Span:
    """A convolution or matrix product in float32; `apply` is it, of input, weight and bias."""
    weight, bias = weight.detach().double(), None if bias is None else bias.detach().double()
    middle = apply(span.middle, weight, bias)
    sizes = apply(span.size.float(), weight.abs().float(), None if bias is None else bias.abs().float()).double()
    error = (units_of_sum(weight[0].numel()) + SINGLE) * UNIT * sizes
    if bool(span.width.any()):
        error = error + apply(span.width / 2, weight.abs(), None)
    return Span.of(middle).widened(error)


def line(span: Span, scale: Tensor, shift: Tensor, shift_size: Tensor) -> Span:
    """scale x number + shift in float32, where the shift is made of numbers that together have that size."""
    ends = span.low * scale + shift, span.high * scale + shift
    error = SINGLE * UNIT * (span.size * scale.abs() + shift_size)
    return Span(torch.minimum(*ends), torch.maximum(*ends)).widened(error)


def average(span: Span, apply: Callable[[Tensor], Tensor]) -> Span:
    """A sum or mean of some of the numbers, in float32."""
    result = span.through(apply)
    per_channel = span.low.shape[2:].numel()
    terms = max(per_channel, span.low.numel() // max(result.low.numel(), 1))
    units = (units_of_sum(terms) + SINGLE) * UNIT
    return result.moved(units * apply(span.low.abs()), units * apply(span.high.abs()))


def total(first: Span, second: Span) -> Span:
    """The sum of two tensors."""
    whole = first.whole and second.whole
    result = Span(first.low + second.low, first.high + second.high, whole)
    return result if whole else result.rounded()


def difference(first: Span, second: Span) -> Span:
    """The first tensor without the second."""
    whole = first.whole and second.whole
    result = Span(first.low - second.high, first.high - second.low, whole)
    return result if whole else result.rounded()


def elementwise_product(first: Span, second: Span) -> Span:
    """The product of two tensors, number by number."""
    ends = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
    if first is second:
        ends = [ends[0], torch.where((first.low < 0) & (first.high > 0), 0, ends[0]), ends[3]]
    result = hull(*ends, whole=first.whole and second.whole)
    return result if result.whole else result.rounded()


def hull(*ends: Tensor, whole: bool = False) -> Span:
    """From the smallest to the largest of several tensors; what is not a number may be anything."""
    stacked = torch.stack(torch.broadcast_tensors(*ends))  # type: ignore[no-untyped-call]
    lost = stacked.isnan()
    low, high = (torch.where(lost, end, stacked) for end in (-torch.inf, torch.inf))
    return Span(low.amin(0), high.amax(0), whole)
