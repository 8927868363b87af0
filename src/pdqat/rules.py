"""Rules that speak of layers by name: exact name first, then glob pattern, then default."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

from pdqat.errors import InputError

T = TypeVar("T")


def resolve(rules: Mapping[str, T], name: str, default: T) -> T:
    """What `rules` say of `name`: an exact name wins over a pattern, of several patterns the first one.

    >>> resolve({"stages.*": 4, "stages.0.conv0": 8}, "stages.0.conv0", 2)
    8
    """
    if name in rules:
        return rules[name]
    return next((value for pattern, value in rules.items() if fnmatchcase(name, pattern)), default)


def check_all_match(rules: Iterable[str], names: Iterable[str], what: str) -> None:
    """Refuse a rule that speaks of nothing: it is a typing mistake, and ignoring it would hide that."""
    names = list(names)
    for pattern in rules:
        if not isinstance(pattern, str):
            raise InputError(f"{what} {pattern!r} is no text; layers are called by text, such as {str(pattern)!r}")
        if pattern not in names and not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(f"{what} {pattern!r} matches no layer; the layers are {', '.join(names) or 'none'}")
