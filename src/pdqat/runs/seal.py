"""Seal: sums of a run's files, by which a file that was damaged or edited is told from one that pdqat wrote.

`seal.json` holds the SHA-256 sums that each file may have. Before a file is replaced the sum of the new content is
added to that of the old one, so that a kill between the two writes leaves a folder that still agrees with its seal.
Folders of earlier versions have none; they get one with the next file that is written there.
"""

import hashlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from pdqat.disk import read_file, write_atomically
from pdqat.errors import InputError
from pdqat.runs.forms import read_json

if sys.platform != "win32":
    import fcntl

OWN_FILES = ("config.toml", "problem.json", "metrics.jsonl", "summary.json", "measured.json", "offer.json")
"""What only pdqat writes: every one of them that is in a sealed folder has a sum."""
PLAN = "plan.toml"
"""What `pdqat plan` writes there, which people may also write themselves: it is sealed only if pdqat did."""


class SealForm(msgspec.Struct):
    """seal.json: the sums that each file may have, by its name."""

    sha256: dict[str, list[str]]


class Seal:
    """The seal of a run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "seal.json"

    def read(self, path: Path) -> bytes:
        """The content of a file of the folder; raises InputError if it is another than was written."""
        content = read_file(path)  # before the seal: a file that is replaced meanwhile is still known to the seal
        if not self.file.exists():
            return content
        sums = self._sums()
        if (path.name in sums or path.name in OWN_FILES) and _sum(content) not in sums.get(path.name, ()):
            raise InputError(
                f"{path} is damaged, or was edited: it is not as pdqat wrote it; if that was on purpose, accept it "
                f"with: {self._command}"
            )
        return content

    def write(self, path: Path, content: bytes) -> None:
        """Write a file of the folder, so that it agrees with the seal at any moment."""
        with self._held():
            sums = self._sums() if self.file.exists() else self._sums_now()
            before = _sum(read_file(path)) if path.is_file() else None
            kept = [before] if before in sums.get(path.name, ()) and before is not None else []
            self._write({**sums, path.name: [*dict.fromkeys([*kept, _sum(content)])]})
            write_atomically(path, content)

    def accept(self, check: Callable[[], object] = lambda: None) -> list[str]:
        """Seal the files as they are now, and take that back if the check refuses them; returns their names."""
        with self._held():
            before = read_file(self.file) if self.file.exists() else None
            sums = self._sums_now()
            self._write(sums)
            try:
                check()
            except InputError:
                if before is None:
                    self.file.unlink()
                else:
                    write_atomically(self.file, before)
                raise
        return list(sums)

    def _sums_now(self) -> dict[str, list[str]]:
        files = [self.folder / name for name in (*OWN_FILES, PLAN)]
        return {file.name: [_sum(read_file(file))] for file in files if file.is_file()}

    def _sums(self) -> dict[str, list[str]]:
        try:
            sums: dict[str, list[str]] = read_json(read_file(self.file), SealForm, self.file)["sha256"]
        except InputError as error:
            raise InputError(f"{error}; if the other files are good, seal them with: {self._command}") from error
        return sums

    @property
    def _command(self) -> str:
        return shlex.join(["pdqat", "seal", str(self.folder)])

    def _write(self, sums: dict[str, list[str]]) -> None:
        write_atomically(self.file, msgspec.json.format(msgspec.json.encode({"sha256": sums})) + b"\n")

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other processes from writing the seal meanwhile."""
        if sys.platform == "win32":
            yield
            return
        opened = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX)
            yield
        finally:
            os.close(opened)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
