"""A flag for a field of TrainConfig, checked where all values are checked."""

import argparse
import dataclasses
from collections.abc import Callable
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

from pdqat.config.train_config import TrainConfig
from pdqat.flags.arguments import Pairs, number, whole_number
from pdqat.flags.completion import suggest

_FIELDS = {field.name: field for field in dataclasses.fields(TrainConfig)}
_HINTS = get_type_hints(TrainConfig)
_SCALARS: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (whole_number, "N"),
    float: (number, "X"),
    str: (str, "TEXT"),
}

HELP: dict[str, str] = {name: field.metadata["help"] for name, field in _FIELDS.items()}
"""What is said of every field."""


def given_flags(options: argparse.Namespace) -> dict[str, Any]:
    """Those that were given, by their key."""
    return {name: getattr(options, name) for name in _FIELDS if name in options}


def add_config_flag(group: Any, name: str) -> None:
    """Add the flag of a field to a group of options."""
    field, hint, flag = _FIELDS[name], _HINTS[name], f"--{name.replace('_', '-')}"
    arguments = get_args(hint)
    kind = next((arg for arg in arguments if arg is not type(None)), hint) if type(None) in arguments else hint
    choices = list(kind) if isinstance(kind, type) and issubclass(kind, StrEnum) else field.metadata["one_of"]
    text = _help(field, choices)
    if kind is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
    elif get_origin(kind) is list:
        item = get_args(kind)[0]
        action = "extend" if field.metadata["repeated"] else "store"
        read_item = number if item is float else str
        group.add_argument(flag, nargs="+", action=action, type=read_item, help=text, metavar="X")
    elif get_origin(kind) is dict:
        of_numbers = get_args(kind)[1] is float
        group.add_argument(flag, nargs="+", action=Pairs, of_numbers=of_numbers, help=text, metavar="PATTERN=X")
    elif choices:
        group.add_argument(flag, help=text, metavar="NAME")
        suggest(group, flag, choices)
    else:
        read, shown_as = _SCALARS[kind]
        group.add_argument(flag, type=read, help=text, metavar=shown_as)


def _help(field: "dataclasses.Field[Any]", choices: Any) -> str:
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    shown = " ".join(map(str, default)) if isinstance(default, list | dict) else str(default)
    text = field.metadata["help"] + (f"; one of {', '.join(choices)}" if choices else "")
    return (text if default is None or not shown else f"{text} (default: {shown})").replace("%", "%%")
