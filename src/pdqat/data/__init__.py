"""Image data sets in memory: the digits, CIFAR-10, CIFAR-100 and a folder of one's own images."""

import os
from pathlib import Path

from pdqat.data.augmentation import Augmentation
from pdqat.data.cifar import load_cifar
from pdqat.data.cifar_files import find
from pdqat.data.dataset import Dataset, channel_statistics, split
from pdqat.data.digits import digits
from pdqat.data.fetch import fetch
from pdqat.data.folder import image_folder
from pdqat.data.loader import Batches
from pdqat.data.pooling import pooled
from pdqat.errors import InputError

__all__ = [
    "NAMES",
    "Augmentation",
    "Batches",
    "Dataset",
    "channel_statistics",
    "default_folder",
    "digits",
    "fetch",
    "image_folder",
    "load",
    "load_cifar",
    "split",
]

NAMES = ("digits", "cifar10", "cifar100", "folder")


def load(name: str, path: Path | None = None, size: int = 32) -> Dataset:
    """Load the data set `name`.

    Args:
        name: "digits", "cifar10", "cifar100" or "folder".
        path: the archive or folder of CIFAR, by default looked for in `default_folder()`; the folder for "folder".
        size: the height and width to which "folder" resizes images and CIFAR's are pooled, then a divisor of 32.

    Examples:
        >>> load("digits").classes
        ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
    """
    try:
        return _load(name, path, size)
    except OSError as error:
        raise InputError(f"The data set {name!r} can't be read: {error}.") from error


def _load(name: str, path: Path | None, size: int) -> Dataset:
    match name:
        case "digits":
            if path is not None:
                raise InputError(f"The data set 'digits' comes with scikit-learn; the path {path} can't be given.")
            return digits()
        case "cifar10" | "cifar100":
            return pooled(load_cifar(name, path if path is not None else _fetched(name)), size)
        case "folder":
            if path is None:
                raise InputError("The data set 'folder' needs the path of a folder with train/ and test/ in it.")
            return image_folder(path, size)
        case _:
            raise InputError(f"There is no data set {name!r}; there are {', '.join(NAMES)}.")


def default_folder() -> Path:
    """Return where fetched data sets are kept: $PDQAT_DATA, or ~/.cache/pdqat if that isn't set."""
    return Path(os.environ.get("PDQAT_DATA") or "~/.cache/pdqat").expanduser()


def _fetched(name: str) -> Path:
    folder = default_folder()
    if find(name, folder) is None:
        raise InputError(
            f"{name} is not in {folder}; `pdqat data {name}` fetches it. For a copy of yours give its path, or set "
            "PDQAT_DATA to its folder."
        )
    return folder
