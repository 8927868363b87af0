"""Where the files of CIFAR-10 and CIFAR-100 can be: in a folder or an archive, of the binary or the python version.

Archives are read member by member into memory, by exact name; nothing in them is ever written to disk.
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pdqat.data.checksums import CHECKSUMS, verify, verify_file
from pdqat.errors import InputError

# The largest official file has 155 MB; a member that claims more isn't one of them and could fill the memory.
_LARGEST_MEMBER = 200_000_000
_LARGEST_UNPACKED = 400_000_000
_LARGEST_READ = 1 << 20
_MOST_MEMBERS = 1000


@dataclass(frozen=True)
class Layout:
    """One official form of a data set: the names of its archive, of the folder in it and of the files in that."""

    archive: str
    folder: str
    train: tuple[str, ...]
    test: str
    pickled: bool

    @property
    def files(self) -> tuple[str, ...]:
        """The data files, training files first."""
        return (*self.train, self.test)


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
CIFAR10_BINARY = Layout(
    "cifar-10-binary.tar.gz",
    "cifar-10-batches-bin",
    tuple(f"{batch}.bin" for batch in _BATCHES),
    "test_batch.bin",
    pickled=False,
)
CIFAR10_PYTHON = Layout("cifar-10-python.tar.gz", "cifar-10-batches-py", _BATCHES, "test_batch", pickled=True)
CIFAR100_BINARY = Layout("cifar-100-binary.tar.gz", "cifar-100-binary", ("train.bin",), "test.bin", pickled=False)
CIFAR100_PYTHON = Layout("cifar-100-python.tar.gz", "cifar-100-python", ("train",), "test", pickled=True)

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "cifar10": (CIFAR10_BINARY, CIFAR10_PYTHON),
    "cifar100": (CIFAR100_BINARY, CIFAR100_PYTHON),
}


def find(name: str, path: Path) -> tuple[Layout, Path] | None:
    """Return the layout in which data set `name` is at `path`, and the folder or archive that holds it.

    `path` may be an archive, a folder of data files, or a folder with either in it. None if nothing is there.
    """
    layouts = LAYOUTS[name]
    if path.is_file():
        return _layout_of_archive(layouts, path), path
    for layout in layouts:
        if any((path / file).is_file() for file in layout.files):
            return layout, path
    for layout in layouts:
        if (path / layout.folder).is_dir():
            return layout, path / layout.folder
    for layout in layouts:
        if (path / layout.archive).is_file():
            return layout, path / layout.archive
    return None


def read(layout: Layout, place: Path) -> dict[str, bytes]:
    """Return the verified content of every data file of `layout`, by name, from a folder or an archive."""
    if place.is_file():
        if any(f"{layout.folder}/{file}" not in CHECKSUMS for file in layout.files):
            verify_file(layout.archive, place)
        contents = _read_archive(layout, place)
    else:
        contents = _read_folder(layout, place)
    for file, content in contents.items():
        verify(f"{layout.folder}/{file}", content, f"{file} in {place}")
    return contents


def _layout_of_archive(layouts: tuple[Layout, ...], path: Path) -> Layout:
    with open_archive(path) as archive:
        for member in archive:
            for layout in layouts:
                if _file_in(layout, member) is not None:
                    return layout
    raise InputError(
        f"{path} holds none of the files expected in it; "
        f"it must be the official {' or '.join(layout.archive for layout in layouts)}."
    )


def _read_archive(layout: Layout, path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with open_archive(path) as archive:
        for member in archive:
            file = _file_in(layout, member)
            if file is None:
                continue
            if member.size > _LARGEST_MEMBER:
                raise InputError(f"{file} in {path} has {member.size} bytes, far more than the official file.")
            found[file] = content_of(archive, member)
            if len(found) == len(layout.files):
                break
    _require_all(layout, found.keys(), path)
    return found


def _read_folder(layout: Layout, path: Path) -> dict[str, bytes]:
    _require_all(layout, {file for file in layout.files if (path / file).is_file()}, path)
    try:
        return {file: (path / file).read_bytes() for file in layout.files}
    except OSError as error:
        raise InputError(f"{error.filename} can't be read: {error.strerror}.") from error


def _file_in(layout: Layout, member: tarfile.TarInfo) -> str | None:
    folder, _, file = member.name.removeprefix("./").rpartition("/")
    return file if member.isreg() and folder == layout.folder and file in layout.files else None


def _require_all(layout: Layout, present: Set[str], path: Path) -> None:
    missing = [file for file in layout.files if file not in present]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; the data set consists of {', '.join(layout.files)}.")


class _Bounded(gzip.GzipFile):
    """Unpacks no more than an official archive holds, and hands out no more at once than one of its files has.

    Names in the headers of an archive can be of any length, and tarfile reads them whole.
    """

    def read(self, size: int | None = -1) -> bytes:
        """As of any file."""
        if size is None or size < 0 or size > _LARGEST_READ:
            raise tarfile.ReadError(f"it has a header of {size} bytes")
        return super().read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file, from its beginning."""
        if offset > _LARGEST_UNPACKED:
            raise tarfile.ReadError(f"it holds more than {_LARGEST_UNPACKED / 1e6:.0f} MB")
        return super().seek(offset, whence)


class _Archive(tarfile.TarFile):
    """Of few members."""

    _read = 0

    def next(self) -> tarfile.TarInfo | None:
        """The next member."""
        self._read += 1
        if self._read > _MOST_MEMBERS:
            raise tarfile.ReadError(f"it has more than {_MOST_MEMBERS} members")
        return super().next()


@contextmanager
def open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a .tar.gz archive for reading; whatever shows it to be damaged becomes an InputError."""
    try:
        with _Bounded(path) as unpacked, _Archive(fileobj=unpacked) as archive:
            yield archive
    except InputError:
        raise
    except (
        OSError,
        EOFError,
        tarfile.TarError,
        zlib.error,
        ValueError,
        ArithmeticError,
        LookupError,
        RecursionError,
    ) as error:
        # tarfile lets through what int() and decode() make of odd headers
        raise InputError(f"{path} is not a whole .tar.gz archive: {error}.") from error


def content_of(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """The bytes of a regular file in an archive."""
    stream = archive.extractfile(member)
    assert stream is not None, "a regular file always has a stream"
    return b"".join(iter(lambda: stream.read(_LARGEST_READ), b""))
