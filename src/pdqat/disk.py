"""Files that are whole at any moment, whatever stops the process or the machine.

What is written replaces regular files only. A symbolic link is followed, never replaced; pipes and devices that take a
stream of bytes, such as /dev/stdout, are written to.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

from pdqat.errors import InputError

LARGEST = 2**31
"""In bytes, of the files that are read at once; no run and no graph comes near it."""


def as_path(given: object, what: str) -> Path:
    """What names a file or folder, as a path."""
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{what} is named by text or a path, not {given!r}")
    if not is_name(os.fsdecode(given)):
        raise InputError(f"{what} is named by text that is not empty and has no zero bytes, not {given!r}")
    return Path(given)


def is_name(text: str) -> bool:
    r"""Whether text can name a file or folder, and can be written down: a name may be bytes that are no text.

    >>> is_name("runs/first"), is_name(""), is_name("\0"), is_name("\udcff")
    (True, False, False, False)
    """
    return bool(text) and "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def read_file(path: Path, largest: int = LARGEST, streams: bool = False) -> bytes:
    """The content of a regular file, or of a stream too where somebody may hand one over; no more than the largest.

    A pipe or a device among the files of a stranger would never end.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode) and not streams:
        raise InputError(f"{path} is no regular file, but a pipe or a device")
    if about.st_size <= largest:
        with path.open("rb") as file:
            content = file.read(largest + 1) if streams else file.read()
        if len(content) <= largest:
            return content
    raise InputError(f"{path} is larger than {largest / 2**20:,.0f} MB, which no such file is")


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary name, flush to disk, rename: at any moment the old or the new file is there, whole."""
    check_target(path)
    try:
        if _is_stream(path):
            path.write_bytes(content)
            return
        target = Path(os.path.realpath(path))
        _replace(target, content)
        sync_folder(target.parent)
    except OSError as error:
        raise InputError(f"can't write {path}: {error.strerror or error}") from error


def check_target(path: Path) -> None:
    """Refuse what can't be written without destroying something: folders, sockets and disks."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:  # a new name
        return
    except OSError as error:
        raise InputError(f"can't write {path}: {error.strerror or error}") from error
    if not stat.S_ISREG(mode) and not _is_stream(path):
        kind = "a folder" if stat.S_ISDIR(mode) else "neither a file nor a stream"
        raise InputError(f"can't write {path}: it is {kind}")


def remove_file(path: Path) -> None:
    """Remove the regular file that a path leads to, if there is one."""
    target = Path(os.path.realpath(path))
    if target.is_file():
        target.unlink()


def sync_folder(folder: Path) -> None:
    """Let the names in a folder survive a power cut, where the system can promise that."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _is_stream(path: Path) -> bool:
    return path.is_fifo() or path.is_char_device()


def _replace(target: Path, content: bytes) -> None:
    temporary = target.with_name(f".{target.name}.tmp")
    with _own(temporary) as file:
        try:
            os.truncate(file, 0)  # what a killed process has left
            with os.fdopen(os.dup(file), "wb") as writing:
                writing.write(content)
            os.fsync(file)
            temporary.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


@contextlib.contextmanager
def _own(temporary: Path) -> Iterator[int]:
    """The temporary file, opened, for one process at a time: another one that writes the same file waits."""
    while True:
        file = os.open(temporary, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            if sys.platform != "win32":  # which has no such locks
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_named(file, temporary):
                yield file
                return
        finally:
            os.close(file)


def _is_named(file: int, path: Path) -> bool:
    """Whether a path still leads to an opened file: the process that was waited for has renamed its own."""
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False
