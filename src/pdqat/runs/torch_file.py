"""Torch files of strangers: read without running code, and without taking more memory than the file has bytes.

A file of torch.save is an uncompressed zip archive, or in its older form a row of pickles. Both can promise more than
they hold, so what they promise is looked at first.
"""

import mmap
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdqat.errors import InputError

ZIP = b"PK\x03\x04"
"""How archives of torch.save begin; torch takes everything else for the older form."""
ON_DEMAND = b"bytearray"
"""Names a type that is as large as a number in the pickle says. No tensor needs it."""


def read_torch_file(path: Path, what: str) -> Any:
    """The content, on the CPU; `what` it is stands in the refusal."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise ValueError("no regular file")
        _check_promises(path)
        with warnings.catch_warnings(action="ignore"):
            content = torch.load(path, map_location="cpu", weights_only=True)
        _check_tensors(content)
        return content
    except FileNotFoundError as error:
        raise InputError(f"there is no {what} {path}") from error
    except MemoryError:
        raise
    except OSError as error:
        raise InputError(f"can't read the {what} {path}: {error.strerror or error}") from error
    except Exception as error:  # on odd bytes the unpickler fails in any way it likes, IndexError and struct.error too
        raise InputError(f"the {what} {path} is damaged or not a torch file of plain tensors") from error


def _check_promises(path: Path) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content[: len(ZIP)] == ZIP:
            _check_archive(path)
        else:
            _check_no_tar(content[: tarfile.BLOCKSIZE])
        if content.find(ON_DEMAND) >= 0:
            raise ValueError(f"{ON_DEMAND.decode()} in a torch file")


def _check_archive(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise zipfile.BadZipFile("compressed")
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise zipfile.BadZipFile("members that overlap")
        # torch.save writes sums, but torch.load does not look at them: it takes damaged weights for good ones.
        if archive.testzip() is not None:
            raise zipfile.BadZipFile("a wrong sum")


def _check_no_tar(beginning: bytes) -> None:
    """torch tries a form before the older one too, a tar archive, whose names can be of any length."""
    try:
        tarfile.TarInfo.frombuf(beginning, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return
    raise ValueError("a tar archive")


def _check_tensors(content: Any) -> None:
    """Refuse tensors that repeat what they store: a few bytes can stand for any number of elements."""
    waiting, seen = [content], set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, Tensor):
            if part.is_sparse or part.numel() * part.element_size() > part.untyped_storage().nbytes():
                raise ValueError("a tensor that is larger than what is stored of it")
        elif isinstance(part, dict | list | tuple | set) and id(part) not in seen:
            seen.add(id(part))
            waiting.extend(part.values() if isinstance(part, dict) else part)
