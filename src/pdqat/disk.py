"""Files that are whole at any moment, whatever stops the process or the machine."""

import contextlib
import os
from pathlib import Path

from pdqat.errors import InputError


def as_path(given: object, what: str) -> Path:
    """What names a file or folder, as a path."""
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{what} is named by text or a path, not {given!r}")
    return Path(given)


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary name, flush to disk, rename: at any moment the old or the new file is there, whole."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise InputError(f"can't write {path}: {error.strerror or error}") from error
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Let the names in a folder survive a power cut, where the system can promise that."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
