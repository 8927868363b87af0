"""The command line: pdqat train, eval, show, sensitivity, plan, export, verify, bench, report, paper, seal and data."""

import pkgutil
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pdqat.errors import LostProcessError
from pdqat.failures import explain
from pdqat.printing import complain, flush_output, give_up_output

if TYPE_CHECKING:
    from pdqat.flags.parser import Parser

COMMANDS = (
    *("train", "evaluate", "show", "sensitivity", "plan", "export", "verify", "bench", "report", "paper"),
    *("seal", "data"),
)
LOST_PROCESS = 75
"""What systems call a failure for now: the same may work when it is tried again."""
ENDED_BY_SIGNAL = 128
"""Plus the number of the signal, as shells say it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    with _ending_in_order() as signals:
        return _run(arguments, signals)


def _run(arguments: Sequence[str] | None, signals: "Signals") -> int:
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        options = _parser().parse_args(given)
        options.as_typed = shlex.join(["pdqat", *given])
        with signals.held_back():
            command = pkgutil.resolve_name(options.command)  # what does the work is imported only now
        command(options)
        flush_output()
    except LostProcessError as error:
        complain(f"{error}; what was finished is kept{_continuing(error)}")
        return LOST_PROCESS
    except KeyboardInterrupt as stop:
        return _interrupted(stop)
    except BrokenPipeError:  # nobody reads on, so there is nobody to tell
        return ENDED_BY_SIGNAL + signal.SIGPIPE
    except Exception as error:
        interrupt = _interrupt_behind(error)
        if interrupt is not None:
            return _interrupted(interrupt)
        sentence, code = explain(error)
        complain(sentence)
        return code
    finally:
        give_up_output()
    return 0


def _interrupted(stop: KeyboardInterrupt) -> int:
    _heed_no_more_signals()
    number = signal.Signals(stop.args[0] if stop.args else signal.SIGINT)
    ended = "terminated" if number is signal.SIGTERM else "interrupted"
    complain(f"{ended}; what was finished is kept{_continuing(stop)}")
    return ENDED_BY_SIGNAL + number


def _interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """What an import or a library that was interrupted may have turned into another exception."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def _continuing(stop: BaseException) -> str:
    return "\n".join(["; continue with", *stop.__notes__]) if hasattr(stop, "__notes__") else ""


def _parser() -> "Parser":
    from pdqat.flags.completion import add_completion
    from pdqat.flags.parser import Parser  # not before an interrupt is heeded
    from pdqat.version import __version__

    parser = Parser(prog="pdqat", description="Train PyTorch models that survive low precision.")
    parser.add_argument("--version", action="version", version=f"pdqat {__version__}")
    add_completion(parser)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    for command in COMMANDS:
        import_module(f"pdqat.flags.{command}").add_command(commands)
    return parser


class Signals:
    """Requests to end, Ctrl-C (SIGINT) or SIGTERM: each is an interrupt where it comes, or after an import."""

    def __init__(self) -> None:
        self._waiting: int | None = None
        self._are_held_back = False

    def handle(self, number: int, _: Any) -> None:
        """Interrupt what is going on; while signals are held back only the second time."""
        if self._are_held_back and self._waiting is None:
            self._waiting = number
        else:
            raise KeyboardInterrupt(number)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Let an import end first: inside compiled modules an interrupt would be swallowed, or abort the process."""
        self._are_held_back = True
        try:
            yield
        finally:
            self._are_held_back = False
        if self._waiting is not None:
            raise KeyboardInterrupt(self._waiting)


@contextmanager
def _ending_in_order() -> Iterator[Signals]:
    """Let a request to end (SIGTERM) do what Ctrl-C does.

    A command that can be continued says how in a note on the exception.
    """
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if before[signal.SIGINT] is not signal.SIG_IGN:  # as it is in the background of a shell
        signal.signal(signal.SIGINT, signals.handle)
    signal.signal(signal.SIGTERM, signals.handle)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heed_no_more_signals() -> None:
    """While the end is being told: a second Ctrl-C would end that in a traceback."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
