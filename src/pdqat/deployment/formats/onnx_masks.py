"""Comparisons, masks and choices by them, as ONNX has them."""

from collections.abc import Callable
from typing import Any

import torch

from pdqat.deployment.formats.onnx_emitter import Emitter, Value

COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
OF_MASKS = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "bitwise_and": "And", "bitwise_or": "Or"}


def compared(kind: str) -> Callable[..., str]:
    """Two numbers, in the type that torch compares them in."""

    def write(file: Emitter, x: Any, other: Any) -> str:
        plain = [part.small if isinstance(part, Value) else part for part in (x, other)]
        dtype = torch.result_type(*plain)
        operands = [file.operand(part, dtype) for part in (x, other)]
        return file.emit("Not", [file.emit("Equal", operands)]) if kind == "Not" else file.emit(kind, operands)

    return write


def of_masks(kind: str) -> Callable[..., str]:
    """Two masks."""

    def write(file: Emitter, x: Any, other: Any) -> str:
        if file.made.small.dtype != torch.bool:
            raise file.refuse("an operation on the bits of numbers")
        return file.emit(kind, [file.operand(x), file.operand(other)])

    return write


def negated(file: Emitter, x: Value) -> str:
    """A mask's opposite."""
    if file.made.small.dtype != torch.bool:
        raise file.refuse("an operation on the bits of numbers")
    return file.emit("Not", [file.operand(x, torch.bool)])


def where(file: Emitter, condition: Value, x: Any, other: Any) -> str:
    """One of two, by a mask."""
    return file.emit("Where", [file.operand(condition, torch.bool), file.operand(x), file.operand(other)])


def masked_fill(file: Emitter, x: Value, mask: Value, value: Any) -> str:
    """A number where the mask says."""
    return where(file, mask, value, x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: compared(kind) for name, kind in (*COMPARISONS.items(), ("ne", "Not"))},
    **{name: of_masks(kind) for name, kind in OF_MASKS.items()},
    **dict.fromkeys(("logical_not", "bitwise_not"), negated),
    "where": where,
    "masked_fill": masked_fill,
}
"""By torch's names, with torch's arguments behind the file."""
