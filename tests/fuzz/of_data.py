"""Readers of images and files of CIFAR."""

import gzip
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

from damaged import Reader
from pdqat.data.cifar import _VARIANTS, _unpickled_records
from pdqat.data.cifar_files import CIFAR10_BINARY, find, read
from pdqat.data.folder import _square
from pdqat.data.image_file import FORMATS

SUFFIXES = (".bmp", ".gif", ".jpg", ".png", ".ppm", ".tif", ".webp")
ARCHIVE, BATCH = "archive of CIFAR", "pickled batch of CIFAR"
NAMES = (*SUFFIXES, ARCHIVE, BATCH)


def image(suffix: str) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, FORMATS[suffix])
    return buffer.getvalue()


def images(folder: Path, suffix: str) -> Reader:
    return Reader.of_file(folder / f"image{suffix}", lambda file: _square(file, 8), image(suffix))


def archives(folder: Path) -> Reader:
    """Damaged before they are compressed, so that what is odd are the headers."""
    file = folder / CIFAR10_BINARY.archive

    def opened(content: bytes) -> None:
        file.write_bytes(gzip.compress(content, 1, mtime=0))
        found = find("cifar10", file)
        assert found is not None
        read(*found)

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in CIFAR10_BINARY.files:
            info = tarfile.TarInfo(f"{CIFAR10_BINARY.folder}/{name}")
            info.size, info.pax_headers = 40, {"comment": "é", "mtime": "1.5"}
            archive.addfile(info, io.BytesIO(bytes(40)))
    return Reader(opened, [buffer.getvalue()], ARCHIVE_WORDS, samples_are_read=False)  # their sums are not official


ARCHIVE_WORDS = (
    b"\0" * 8,
    b"7" * 11 + b"\0",
    b"-1",
    b"\x80" + b"\xff" * 11,
    b"12 size=9\n",
    b"99999999999 path=a\n",
    b"x",
)


def batches() -> Reader:
    content = {"data": np.zeros((2, 3072), np.uint8), "labels": [1, 2]}
    return Reader(
        lambda damaged: _unpickled_records(damaged, _VARIANTS["cifar10"], "a batch"),
        [pickle.dumps(content, protocol) for protocol in (0, 2, 4)],
    )


def readers(folder: Path) -> dict[str, Reader]:
    """Of images by their suffix, of an archive of CIFAR and a file in it."""
    return {**{suffix: images(folder, suffix) for suffix in SUFFIXES}, ARCHIVE: archives(folder), BATCH: batches()}
