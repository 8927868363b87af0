"""What can go wrong with a command, and what any end of it has to be."""

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from faults.forking import Ended
from faults.injecting import FAILURES, SIGNALS, Fault

Test = TypeVar("Test", bound=Callable[..., None])
KINDS = ("signal", "late signal", "failure", "lasting failure", "quota")
SENTENCE, INTERRUPTED, TERMINATED = 2, 128 + signal.SIGINT, 128 + signal.SIGTERM


@dataclass(frozen=True)
class Span:
    """What a command does if nothing goes wrong: among how much a fault can fall."""

    moments: int
    seconds: float
    largest: int
    """Of its files, in bytes."""

    @classmethod
    def of(cls, ended: Ended, folder: Path) -> Self:
        """Of a command that ended well, and left its files in a folder."""
        return cls(ended.moments, ended.seconds, max(file.stat().st_size for file in folder.iterdir()))

    def drawn(self, choice: random.Random) -> Fault:
        """Any fault that can hit it."""
        kind = choice.choice(KINDS)
        moment = choice.randint(1, self.moments)
        if kind == "signal":
            return Fault(kind, choice.choice(SIGNALS), moment)
        if kind == "late signal":
            return Fault(kind, choice.choice(SIGNALS), seconds=choice.uniform(0, 1.2 * self.seconds))
        if kind == "quota":
            return Fault(kind, moment=choice.randint(0, self.largest))
        return Fault(kind, choice.choice(FAILURES), moment)


def faults(fast: int, slow: int) -> Callable[[Test], Test]:
    """How many are drawn for a test."""

    def counted(test: Test) -> Test:
        test.faults = (fast, slow)  # type: ignore[attr-defined]
        return test

    return counted


def assert_in_order(ended: Ended) -> None:
    """Done, killed, ended by a signal with a word about it, or refused in one sentence; never a traceback."""
    told = f"code {ended.code}\n{ended.output}\n{ended.errors}"
    lines = ended.errors.splitlines()
    if ended.code == 0:
        assert not lines, told
    elif ended.code == SENTENCE:
        assert len(lines) == 1, told
        assert lines[0].startswith("pdqat: "), told
    elif ended.code in (INTERRUPTED, TERMINATED):
        word = "interrupted" if ended.code == INTERRUPTED else "terminated"
        assert not lines or lines[0].startswith(f"pdqat: {word}; what was finished is kept"), told
    else:
        assert ended.code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT), told  # the last two as Python ends
        assert not lines, told
