"""Text of C: tables of numbers, and names that can't be anything but names."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

WIDTH = 116
"""Of a line of numbers."""
LONGEST_NAME = 100


def plain_name(name: str) -> str:
    """A name of the model's for a comment or a string: nothing in it can end either, or join lines.

    >>> plain_name("stages.0.conv*/")
    'stages.0.conv__'
    """
    return re.sub(r"[^A-Za-z0-9_.]", "_", name)[:LONGEST_NAME]


def real(value: float) -> str:
    """A float32, with as many digits as tell it from all others.

    >>> real(0.1), real(-2)
    ('0.100000001f', '-2.0f')
    """
    digits = f"{np.float32(value):.9g}"
    return f"{digits}f" if re.search(r"[.e]", digits) else f"{digits}.0f"


_LITERALS: dict[str, Any] = {
    "float": real,
    "uint32_t": lambda number: f"0x{int(number):08x}u",
    "int64_t": lambda number: f"{int(number)}LL",
}


def value_of(kind: str, number: Any) -> str:
    """A number of a type."""
    return str(_LITERALS[kind](number)) if kind in _LITERALS else str(int(number))


def table(kind: str, name: str, numbers: Any) -> str:
    """A constant array of any shape, as a flat one."""
    flat = np.asarray(numbers).reshape(-1)
    return f"static const {kind} {name}[{len(flat)}] = {{\n{rows(value_of(kind, number) for number in flat)}\n}};"


def rows(literals: Iterable[str]) -> str:
    """Numbers in lines."""
    lines, line = [], "   "
    for literal in literals:
        if len(line) + len(literal) + 2 > WIDTH:
            lines.append(line)
            line = "   "
        line += f" {literal},"
    return "\n".join([*lines, line])


def structure(kind: str, name: str, fields: Mapping[str, Any]) -> str:
    """A constant struct, with the fields that are not 0."""
    given = ", ".join(f".{field} = {value}" for field, value in fields.items() if value not in (0, None))
    return f"static const {kind} {name} = {{{given}}};"
