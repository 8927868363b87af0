"""One fault in a process: a signal, a call that fails, or a limit on the size of files, at a chosen moment.

Moments are counted in calls that touch the folder in question (open, make, rename, remove, truncate, flush), which
fall between all that can go wrong with files.
"""

import errno
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOUCHING = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.listdir", "os.scandir"}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES)


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and when."""

    kind: str = "none"
    number: int = 0
    """Of the signal or the failure."""
    moment: int = 0
    """The call before which it happens; of a quota, the largest file in bytes."""
    seconds: float = 0.0
    """After which a late signal comes."""


class Moments:
    """Counts the calls of this process that touch a folder, and lets the fault happen at its moment."""

    def __init__(self, fault: Fault, folder: Path) -> None:
        self._fault, self._folder = fault, str(folder)
        self.count = 0

    def inject(self) -> None:
        """From now on."""
        if self._fault.kind == "quota":
            resource.setrlimit(resource.RLIMIT_FSIZE, (self._fault.moment, resource.RLIM_INFINITY))
        os.fsync = self._before(os.fsync)  # type: ignore[assignment]  # which has no audit event
        sys.addaudithook(self._on_event)

    def _before(self, call: Callable[[Any], None]) -> Callable[[Any], None]:
        def called(file: Any) -> None:
            self._pass(writes=True)
            call(file)

        return called

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in TOUCHING:
            return
        if not any(self._folder in os.fsdecode(path) for path in arguments if isinstance(path, str | bytes | Path)):
            return
        reads = event in ("os.listdir", "os.scandir") or (event == "open" and not _writes(arguments))
        self._pass(writes=not reads)

    def _pass(self, writes: bool) -> None:
        self.count += 1
        if self._fault.kind == "signal" and self.count == self._fault.moment:
            os.kill(os.getpid(), self._fault.number)
        lasting = self._fault.kind == "lasting failure" and writes and self.count >= self._fault.moment
        if lasting or (self._fault.kind == "failure" and self.count == self._fault.moment):
            raise OSError(self._fault.number, os.strerror(self._fault.number))


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    return bool(flags & (os.O_WRONLY | os.O_RDWR)) or any(letter in (mode or "") for letter in "wax+")
