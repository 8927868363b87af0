"""The parser of the command line: whole names, help in whole words, and a suggestion for what is misspelt."""

import argparse
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from pdqat.errors import InputError
from pdqat.suggestions import closest, did_you_mean

_OPTION = re.compile(r"--?[A-Za-z]\S*")


class WholeWords(argparse.HelpFormatter):
    """Keeps names such as straight-through in one piece."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """Takes options by their whole names, and says in one sentence what is wrong with the arguments."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=WholeWords, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown options first: they are often why argparse would miss something else."""
        self._refuse_unknown(args or ())
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Called by argparse for bad arguments."""
        raise InputError(f"{message} (see {self.prog} --help)")

    def _refuse_unknown(self, arguments: Sequence[str]) -> None:
        known = self._option_string_actions
        for argument in self._own(arguments):
            option = argument.partition("=")[0]
            if _OPTION.fullmatch(option) and option not in known:
                meant = closest(option, known)
                self.error(f"unknown option {option}" + (f"; did you mean {meant}?" if meant else ""))

    def _own(self, arguments: Sequence[str]) -> Iterable[str]:
        """Those that this parser reads itself: up to the command that another one reads, and up to --."""
        for argument in arguments:
            if argument == "--" or (self._subparsers is not None and not argument.startswith("-")):
                return
            yield argument

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            allowed = [str(choice) for choice in action.choices]
            text = f"unknown word {value!r}{did_you_mean(value, allowed)}; choose one of {', '.join(allowed)}"
            raise argparse.ArgumentError(action, text)
