"""The command line: pdqat train, eval, show, sensitivity, plan, export, verify, bench, paper and data."""

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from pdqat.commands import bench, data, evaluate, export, paper, plan, sensitivity, show, train, verify
from pdqat.errors import InputError
from pdqat.version import __version__

COMMANDS = (train, evaluate, show, sensitivity, plan, export, verify, bench, paper, data)
BAD_INPUT = 2
INTERRUPTED = 130


class WholeWords(argparse.HelpFormatter):
    """Keeps names such as straight-through in one piece."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """Takes options by their whole names, and says in one sentence what is wrong with the arguments."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=WholeWords, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Called by argparse for bad arguments."""
        raise InputError(f"{message} (see {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        options = _parser().parse_args(arguments)
        options.command(options)
    except InputError as error:
        print(f"pdqat: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("pdqat: interrupted; what was finished is kept", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"pdqat: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="pdqat", description="Train PyTorch models that survive low precision.")
    parser.add_argument("--version", action="version", version=f"pdqat {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    for command in COMMANDS:
        command.add_command(commands)
    return parser
