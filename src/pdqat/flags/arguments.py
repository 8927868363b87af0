"""How arguments of the command line are read."""

import argparse
from pathlib import Path
from typing import Any

from pdqat.disk import is_name
from pdqat.errors import InputError


def number(text: str) -> float:
    """Any number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number is needed, not {text!r}") from None


def whole_number(text: str) -> int:
    """A number without a fraction."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number is needed, not {text!r}") from None


def path(text: str) -> Path:
    """The name of a file or folder, which can't be empty."""
    if not is_name(text):
        raise argparse.ArgumentTypeError(f"the name of a file or folder is needed, not {text!r}")
    return Path(text)


def count(text: str) -> int:
    """How many of something: at least one."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"a whole number above 0 is needed, not {text!r}")
    return int(text)


class Pairs(argparse.Action):
    """PATTERN=VALUE arguments as a dictionary."""

    def __init__(self, *args: Any, of_numbers: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._of_numbers = of_numbers

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        """Called by argparse."""
        pairs = dict(getattr(namespace, self.dest, {}))
        for text in values:
            pattern, sign, value = text.rpartition("=")
            if not sign or not pattern:
                raise InputError(f"{option_string} takes PATTERN=VALUE, not {text!r}")
            try:
                pairs[pattern] = number(value) if self._of_numbers else value
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentError(self, str(error)) from None
        setattr(namespace, self.dest, pairs)


def add_own_code(parser: argparse.ArgumentParser) -> None:
    """Options that name a run's own code again."""
    for name in ("model", "data"):
        parser.add_argument(
            f"--{name}",
            metavar="PATH",
            help=f"the run's own {name} function, named again, since a run folder alone may not run code",
        )
