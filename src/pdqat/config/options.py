"""Options: the fields of a configuration, the types they take, and the sentences that say what a value must be."""

import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Union, get_args, get_origin

from pdqat.allocation.budget import BUDGET_FORM, Budget
from pdqat.disk import is_name
from pdqat.errors import InputError
from pdqat.precision import DROPPED, Precision
from pdqat.suggestions import did_you_mean


def option(
    default: Any,
    text: str,
    check: Callable[[Any], str | None] | None = None,
    *,
    one_of: Sequence[str] = (),
    repeated: bool = False,
) -> Any:
    """A field of the configuration: its default, what `--help` says, and what is wrong with a value, if anything.

    With `one_of` its value is one of a few words. A list that is `repeated` has all values of a flag that is given
    several times; of others the last one counts.
    """
    metadata = {
        "help": text,
        "check": _among(one_of) if one_of else check,
        "one_of": tuple(one_of),
        "repeated": repeated,
    }
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def _among(words: Sequence[str]) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        return None if value in words else f"must be one of {', '.join(words)}{did_you_mean(value, words)}"

    return check


def all_among(words: Sequence[str]) -> Callable[[Any], str | None]:
    """Some of a few words, each once."""

    def check(value: list[str]) -> str | None:
        complaint = next((said for each in value if (said := _among(words)(each))), None)
        return complaint or (None if len({*value}) == len(value) else "must name each once")

    return check


def at_least(lowest: float, highest: float | None = None) -> Callable[[Any], str | None]:
    """A number within limits, or none."""

    def check(value: Any) -> str | None:
        fits = value is None or (math.isfinite(value) and lowest <= value <= (value if highest is None else highest))
        return None if fits else f"must be a number from {lowest} {'upwards' if highest is None else f'to {highest}'}"

    return check


def above_zero(value: Any) -> str | None:
    """A number above 0, or none."""
    return None if value is None or (math.isfinite(value) and value > 0) else "must be a number above 0"


def between(low: float, high: float) -> Callable[[Any], str | None]:
    """A number, or all of several, strictly between two."""

    def check(value: Any) -> str | None:
        values = value if isinstance(value, Sequence) else [value]
        fits = all(low < each < high for each in values)
        return None if fits else f"must be above {low} and below {high}"

    return check


def file_name(value: str | None) -> str | None:
    """Of a file or folder, or none."""
    return None if value is None or is_name(value) else "must name a file or folder"


def device_name(value: str) -> str | None:
    """Where torch can compute."""
    return (
        None if re.fullmatch(r"cpu|mps|cuda(:\d+)?", value) else "must be cpu, cuda, mps, or cuda:N for one of several"
    )


def part(value: float | None) -> str | None:
    """Of a whole, or none."""
    return None if value is None or 0 < value <= 1 else "must be above 0 and at most 1"


def precision(value: str) -> str | None:
    """One precision, of layers that are not dropped."""
    try:
        is_one = not Precision.parse(value).is_dropped
    except InputError:
        is_one = False
    if not is_one:
        return "must be a precision: a number of bits from 1 to 8, 'w4a8', 'w4', 'a8' or 'full'"
    return None


def precisions(value: Any) -> str | None:
    """Precisions, in a list or by name; by name a layer can be dropped too."""
    by_name = isinstance(value, Mapping)
    try:
        parsed = [Precision.parse(each) for each in (value.values() if by_name else value)]
    except InputError:
        parsed = None
    if parsed is None or (DROPPED in parsed and not by_name):
        return "must hold precisions: a number of bits from 1 to 8, 'w4a8', 'w4', 'a8' or 'full'"
    return None if value or isinstance(value, Mapping) else "must name at least one precision"


def budget(value: str | None) -> str | None:
    """A budget, or none."""
    try:
        if value is not None:
            Budget.parse(value)
    except InputError:
        return f"must be {BUDGET_FORM}"
    return None


def tolerances(value: Mapping[str, float]) -> str | None:
    """Tolerances by name."""
    fits = all(math.isfinite(each) and each >= 0 for each in value.values())
    return None if fits else "must be numbers from 0 upwards"


def typed(name: str, value: Any, hint: Any) -> Any:
    """The value in the field's type, or a sentence that says what the type is."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise InputError(f"{name} is too large; whole numbers must be below 2^63")
    if get_origin(hint) in (Union, types.UnionType):
        return (
            None if value is None else typed(name, value, next(arg for arg in get_args(hint) if arg is not type(None)))
        )
    if get_origin(hint) is list:
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} must be a list, not {value!r}")
        return [typed(name, each, get_args(hint)[0]) for each in value]
    if get_origin(hint) is dict:
        if not isinstance(value, Mapping):
            raise InputError(f"{name} must be a table of names and values, not {value!r}")
        return {key: typed(f"{name}.{key}", each, get_args(hint)[1]) for key, each in value.items()}
    if issubclass(hint, StrEnum):
        if value not in list(hint):
            raise InputError(f"{name} must be one of {', '.join(hint)}{did_you_mean(value, hint)}, not {value!r}")
        return hint(value)
    if hint is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        kinds = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        raise InputError(f"{name} must be {kinds[hint]}, not {value!r}")
    return value
