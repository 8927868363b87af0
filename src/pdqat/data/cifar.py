"""CIFAR-10 and CIFAR-100 from the authors' files, in whichever official form they are at hand.

Both forms are brought into the records of the binary version: one label byte (CIFAR-10) or the coarse and the fine
label (CIFAR-100), then the red, green and blue planes of 32 x 32 bytes. For CIFAR-10 the records are compared with the
official sums of the binary version, so that every source is held to the same check.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdqat.data.augmentation import Augmentation
from pdqat.data.checksums import verify
from pdqat.data.cifar_classes import CIFAR10_CLASSES, CIFAR100_CLASSES
from pdqat.data.cifar_files import CIFAR10_BINARY, CIFAR10_PYTHON, LAYOUTS, Layout, find, read
from pdqat.data.dataset import Dataset
from pdqat.data.safe_pickle import PickledArray, loads
from pdqat.errors import InputError

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class _Variant:
    label_fields: tuple[str, ...]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


_VARIANTS = {
    "cifar10": _Variant(
        label_fields=("labels",),
        classes=CIFAR10_CLASSES,
        mean=(125.3 / 255, 123.0 / 255, 113.9 / 255),
        std=(63.0 / 255, 62.1 / 255, 66.7 / 255),
    ),
    "cifar100": _Variant(
        label_fields=("coarse_labels", "fine_labels"),
        classes=CIFAR100_CLASSES,
        mean=(129.3 / 255, 124.1 / 255, 112.4 / 255),
        std=(68.2 / 255, 65.4 / 255, 70.4 / 255),
    ),
}


def load_cifar(name: str, path: Path) -> Dataset:
    """Load CIFAR-10 or CIFAR-100 (with its 100 fine labels), verified, with the images in the official order.

    Args:
        name: "cifar10" or "cifar100".
        path: the official binary or python archive, the folder extracted from one, or a folder with either in it.
    """
    if name not in _VARIANTS:
        raise InputError(f"load_cifar got the name {name!r}; it must be 'cifar10' or 'cifar100'.")
    found = find(name, path)
    if found is None:
        wanted = [one for layout in LAYOUTS[name] for one in (layout.folder, layout.archive)]
        what = "holds none of the files of" if path.is_dir() else "doesn't exist as a source of"
        raise InputError(f"{path} {what} {name}; it must be or hold one of {', '.join(wanted)}.")
    layout, place = found
    variant = _VARIANTS[name]
    records = {
        file: _records(content, layout, variant, f"{file} in {place}") for file, content in read(layout, place).items()
    }
    if layout is CIFAR10_PYTHON:
        for file, official in zip(layout.files, CIFAR10_BINARY.files, strict=True):
            verify(f"{CIFAR10_BINARY.folder}/{official}", records[file].data, f"{file} in {place}")
    images, labels = _tensors(np.concatenate([records[file] for file in layout.train]))
    test_images, test_labels = _tensors(records[layout.test])
    return Dataset(
        name=name,
        images=images,
        labels=labels,
        test_images=test_images,
        test_labels=test_labels,
        classes=variant.classes,
        mean=variant.mean,
        std=variant.std,
        augmentation=Augmentation(flip=True, padding=4),
    )


def _records(content: bytes, layout: Layout, variant: _Variant, origin: str) -> NDArray[np.uint8]:
    """Return the rows of the binary version, [N, labels + 3072]."""
    if layout.pickled:
        return _unpickled_records(content, variant, origin)
    width = len(variant.label_fields) + PIXELS
    if len(content) % width:
        raise InputError(f"{origin} has {len(content)} bytes, which is no multiple of the {width} bytes of an image.")
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, width)


def _unpickled_records(content: bytes, variant: _Variant, origin: str) -> NDArray[np.uint8]:
    batch = loads(content, origin)
    if not isinstance(batch, dict):
        raise InputError(f"{origin} is a pickle of something other than a batch of images.")
    pixels = batch.get("data")
    if not isinstance(pixels, PickledArray) or pixels.values.ndim != 2 or pixels.values.shape[1] != PIXELS:
        raise InputError(f"{origin} has no field 'data' with uint8 pixels [N, {PIXELS}].")
    columns = [_label_column(batch, field, len(pixels.values), origin) for field in variant.label_fields]
    return np.ascontiguousarray(np.concatenate([*columns, pixels.values], axis=1))


def _label_column(batch: dict[object, object], field: str, count: int, origin: str) -> NDArray[np.uint8]:
    labels = batch.get(field)
    if not isinstance(labels, list) or len(labels) != count:
        raise InputError(f"{origin} has no field {field!r} with one label for each of its {count} images.")
    if not all(type(label) is int and 0 <= label < 256 for label in labels):
        raise InputError(f"{origin} has labels in {field!r} that are no integers in 0..255.")
    return np.array(labels, dtype=np.uint8).reshape(-1, 1)


def _tensors(records: NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
    images = np.ascontiguousarray(records[:, -PIXELS:]).reshape(-1, 3, 32, 32)
    fine_label = records[:, -PIXELS - 1]
    return torch.from_numpy(images), torch.from_numpy(fine_label.astype(np.int64))
