"""Spans of the integer reference: what its operations make in float32, asked on the codes that a runtime has.

Integers are added without an error. In an exact channel every runtime makes one code of an integer, the reference's.
In an inexact one the line that is rounded may be off by what float32 makes of it; so may real numbers before they are
rounded to codes. Whatever a runtime makes has to lie between the ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from pdqat.deployment.bounds.real import RealSpans
from pdqat.deployment.bounds.span import SINGLE, UNIT, Span, line
from pdqat.deployment.integer.operations import (
    IntegerProduct,
    LookUp,
    ProductSums,
    RealProduct,
    RequantizedProduct,
    ToCodes,
    ToReal,
    per_channel,
    shift_of,
)
from pdqat.deployment.integer.sum_operations import PooledSums, RequantizedSum, SumsToCodes
from pdqat.errors import InputError

OTHER_MODEL = "the file was not exported from this network under this plan"
CODE_MAKERS = (RequantizedProduct, RequantizedSum, SumsToCodes, ToCodes)
CodeMaker = RequantizedProduct | RequantizedSum | SumsToCodes | ToCodes


@dataclass(frozen=True)
class Compared:
    """Numbers of one kind that a runtime made."""

    count: int = 0
    different: int = 0
    """Those that are not what they are compared with."""
    unexplained: int = 0
    """Those that lie where rounding can't bring them."""

    @classmethod
    def of(cls, different: Tensor, explained: Tensor) -> "Compared":
        """From where they differ, and where they lie between the ends."""
        return cls(different.numel(), int(different.sum()), int((~explained).sum()))

    def __add__(self, other: "Compared") -> "Compared":
        return Compared(
            self.count + other.count, self.different + other.different, self.unexplained + other.unexplained
        )


@dataclass(frozen=True)
class Differences:
    """All codes that were compared, by what makes them."""

    exact: Compared = Compared()
    """From integers, in exact channels, with the integer reference's: only equal ones are explained."""
    edge: Compared = Compared()
    """The same in inexact channels, whose integers can lie on the edge of two codes."""
    real: Compared = Compared()
    """From real numbers, with the reference's."""
    simulated: Compared = Compared()
    """All that layers read or add, with what the simulated model makes of the same codes."""

    def __add__(self, other: "Differences") -> "Differences":
        return Differences(
            self.exact + other.exact,
            self.edge + other.edge,
            self.real + other.real,
            self.simulated + other.simulated,
        )

    @property
    def unexplained(self) -> int:
        """Of all kinds."""
        return sum(kind.unexplained for kind in (self.exact, self.edge, self.real, self.simulated))


def code_makers(module: fx.GraphModule) -> list[str]:
    """The operations that make codes."""
    return [name for name, operation in module.named_modules() if isinstance(operation, CODE_MAKERS)]


class ReferenceSpans(RealSpans):
    """The integer reference, one operation at a time on codes that a runtime made."""

    def __init__(self, module: fx.GraphModule, given: Mapping[str, Tensor]) -> None:
        super().__init__(module)
        self._given = given
        self.codes = Differences()

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operation, its codes replaced by the runtime's."""
        operation = self.fetch_attr(str(target))
        if isinstance(operation, ProductSums):
            return _sums(operation, args[0])
        if isinstance(operation, RealProduct):
            sums = _sums(operation, args[0])
            scale, bias = _meeting(sums, operation, operation.scale, operation.bias)
            return line(sums, scale, bias, bias.abs())
        if isinstance(operation, PooledSums):
            return args[0].through(operation)
        if isinstance(operation, LookUp):
            return Span.of(operation(args[0])).rounded()
        if isinstance(operation, ToReal):
            return args[0].through(lambda end: end * operation.step).rounded()
        if not isinstance(operation, CODE_MAKERS):
            return super().call_module(target, args, kwargs)
        reference, span = _made(operation, args[0])
        given = self._given[str(target)]
        if given.shape != span.low.shape:
            raise InputError(f"{OTHER_MODEL}: {target} makes codes of shape {shape(given)}, not {shape(span.low)}")
        different, explained = given != reference, span.holds(given)
        if isinstance(operation, ToCodes):
            self.codes += Differences(real=Compared.of(different, explained))
        else:
            exact = per_channel(operation.exact, given, operation.channel_dim).expand_as(given)
            self.codes += Differences(
                exact=Compared.of(different[exact], explained[exact]),
                edge=Compared.of(different[~exact], explained[~exact]),
            )
        return Span.of(given, whole=True)


def _made(operation: CodeMaker, span: Span) -> tuple[Tensor, Span]:
    """The codes that the reference makes of the middle, and the ends of all that are explained."""
    if isinstance(operation, RequantizedProduct):
        sums = _sums(operation, span)
        return operation.requantize(sums.middle), _requantized(operation, sums)
    if isinstance(operation, RequantizedSum):
        ends = operation.multiplied(span.low), operation.multiplied(span.high)  # the factor may be negative
        return operation(span.middle), _requantized(operation, Span(torch.minimum(*ends), torch.maximum(*ends)))
    if isinstance(operation, SumsToCodes):
        return operation(span.middle), _rounded_sums(operation, span)
    scaled = span.through(lambda end: end * operation.factor / operation.step)
    shifting = torch.tensor(SINGLE * UNIT * shift_of(operation.low), dtype=torch.float64)
    return operation(span.middle), _codes(scaled.rounded(SINGLE).widened(shifting), operation)


def shape(tensor: Tensor) -> str:
    """Of a sample, for messages."""
    return " x ".join(str(size) for size in tensor.shape[1:])


def _sums(operation: IntegerProduct, codes: Span) -> Span:
    """Sums of products of whole numbers: their middle, and as far as the codes' widths reach on either side."""
    middle = operation.accumulate(codes.middle)
    if not bool(codes.width.any()):
        return Span.of(middle, whole=True)
    reach = operation.apply_weight(codes.width / 2, operation.weight.double().abs())
    return Span(middle - reach, middle + reach, whole=True)


def _meeting(sums: Span, operation: IntegerProduct | RequantizedSum | SumsToCodes, *vectors: Tensor) -> list[Tensor]:
    """An operation's numbers per channel, shaped to meet its sums."""
    return [per_channel(vector.double(), sums.low, operation.channel_dim) for vector in vectors]


def _requantized(operation: RequantizedProduct | RequantizedSum, sums: Span) -> Span:
    vectors = (operation.multiplier, operation.offset, operation.held)
    multiplier, offset, held = _meeting(sums, operation, *vectors)
    inexact = line(sums, multiplier, offset * multiplier, held * multiplier + shift_of(operation.low))
    return _where_exact(operation, sums.through(operation.requantize), _codes(inexact, operation))


def _rounded_sums(operation: SumsToCodes, sums: Span) -> Span:
    scale, shift = _meeting(sums, operation, operation.scale, operation.shift)
    held = Span(sums.low + operation.above, sums.high + operation.above)
    ends = operation(sums.low), operation(sums.high)  # the line may fall
    exact = Span(torch.minimum(*ends), torch.maximum(*ends))
    return _where_exact(
        operation, exact, _codes(line(held, scale, shift, shift.abs() + shift_of(operation.low)), operation)
    )


def _codes(span: Span, operation: CodeMaker) -> Span:
    low, high = (torch.round(end).clamp(operation.low, operation.high) for end in (span.low, span.high))
    return Span(low, high, whole=True)


def _where_exact(operation: RequantizedProduct | RequantizedSum | SumsToCodes, exact: Span, inexact: Span) -> Span:
    channels = per_channel(operation.exact, exact.low, operation.channel_dim)
    low, high = (torch.where(channels, *pair) for pair in ((exact.low, inexact.low), (exact.high, inexact.high)))
    return Span(low.double(), high.double(), whole=True)
