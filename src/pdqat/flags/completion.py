"""`pdqat --completion SHELL`: a script by which a shell completes commands, options, their words, and files.

shtab makes it from the parser itself, once, so that pressing the tab key starts no Python.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from pdqat.errors import InputError
from pdqat.flags.arguments import path
from pdqat.printing import say

SHELLS = ("bash", "zsh", "fish", "tcsh")


class PrintCompletion(argparse.Action):
    """Prints the script for a shell, and ends."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        """Called by argparse."""
        try:
            import shtab
        except ImportError:
            raise InputError("completion needs shtab: pip install 'pdqat[completion]'") from None
        for action in _actions(parser):
            if action.choices is None:
                action.choices = getattr(action, "words", None)  # as `suggest` left them
            if action.type is path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        say(shtab.complete(parser, shell=values))
        parser.exit()


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add it to the command line."""
    parser.add_argument(
        "--completion", action=PrintCompletion, choices=SHELLS, help="print a script that lets a shell complete this"
    )


def suggest(parser: Any, flag: str, words: Sequence[str]) -> None:
    """Let shells offer words for a flag that takes others too, or whose value is checked elsewhere."""
    parser._option_string_actions[flag].words = words


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Of a parser and of all parsers below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
        else:
            yield action
