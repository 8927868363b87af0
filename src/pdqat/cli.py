"""The command line: pdqat train, eval, show, sensitivity, plan, export, verify, bench, paper and data."""

import os
import pkgutil
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from pdqat.errors import InputError
from pdqat.flags import bench, data, evaluate, export, paper, plan, sensitivity, show, train, verify
from pdqat.flags.parser import Parser
from pdqat.version import __version__

COMMANDS = (train, evaluate, show, sensitivity, plan, export, verify, bench, paper, data)
BAD_INPUT = 2
ENDED_BY_SIGNAL = 128
"""Plus the number of the signal, as shells say it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        options = _parser().parse_args(given)
        options.as_typed = shlex.join(["pdqat", *given])
        with _ending_in_order():
            pkgutil.resolve_name(options.command)(options)  # what does the work is imported only now
    except InputError as error:
        print(f"pdqat: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt as stop:
        continuing = "\n".join(["; continue with", *stop.__notes__]) if hasattr(stop, "__notes__") else ""
        print(f"pdqat: interrupted; what was finished is kept{continuing}", file=sys.stderr)
        return ENDED_BY_SIGNAL + int(stop.args[0] if stop.args else signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"pdqat: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _parser() -> Parser:
    parser = Parser(prog="pdqat", description="Train PyTorch models that survive low precision.")
    parser.add_argument("--version", action="version", version=f"pdqat {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    for command in COMMANDS:
        command.add_command(commands)
    return parser


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Let a request to end (SIGTERM) do what Ctrl-C does.

    A command that can be continued says how in a note on the exception.
    """

    def interrupt(number: int, _: Any) -> NoReturn:
        raise KeyboardInterrupt(number)

    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
