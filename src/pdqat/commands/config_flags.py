"""A flag for every field of TrainConfig, checked where all values are checked."""

import argparse
import dataclasses
from collections.abc import Callable
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

from pdqat.commands.arguments import Pairs, number, whole_number
from pdqat.config.train_config import TrainConfig

_SCALARS: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (whole_number, "N"),
    float: (number, "X"),
    str: (str, "TEXT"),
}


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """Add them all."""
    hints = get_type_hints(TrainConfig)
    for field in dataclasses.fields(TrainConfig):
        if field.name != "plan":  # which comes from a file
            _add_flag(parser, field, hints[field.name])


def given_flags(options: argparse.Namespace) -> dict[str, Any]:
    """Those that were given, by their key."""
    names = [field.name for field in dataclasses.fields(TrainConfig)]
    return {name: getattr(options, name) for name in names if name in options}


def _add_flag(parser: argparse.ArgumentParser, field: "dataclasses.Field[Any]", hint: Any) -> None:
    flag, text = f"--{field.name.replace('_', '-')}", field.metadata["help"]
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    shown = " ".join(map(str, default)) if isinstance(default, list | dict) else str(default)
    text = text if default is None or not shown else f"{text} (default: {shown})"
    text = text.replace("%", "%%")
    kind = (
        next((arg for arg in get_args(hint) if arg is not type(None)), hint) if type(None) in get_args(hint) else hint
    )
    if kind is bool:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
    elif get_origin(kind) is list:
        item = get_args(kind)[0]
        parser.add_argument(flag, nargs="+", type=number if item is float else str, help=text, metavar="X")
    elif get_origin(kind) is dict:
        of_numbers = get_args(kind)[1] is float
        parser.add_argument(flag, nargs="+", action=Pairs, of_numbers=of_numbers, help=text, metavar="PATTERN=X")
    elif issubclass(kind, StrEnum):
        parser.add_argument(flag, help=f"{text}; one of {', '.join(kind)}", metavar="NAME")
    else:
        read, shown_as = _SCALARS[kind]
        parser.add_argument(flag, type=read, help=text, metavar=shown_as)
