"""Tiny stand-ins for the official CIFAR files, in every official layout, whose sums count as official in a test."""

import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pdqat.data.checksums import CHECKSUMS, SIZES
from pdqat.data.cifar_files import LAYOUTS, Layout

IMAGES = 20


def _python2_int(value: int) -> bytes:
    return b"K" + bytes([value]) if value < 256 else b"M" + value.to_bytes(2, "little")


def _python2_text(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text


def _python2_array(values: NDArray[np.uint8]) -> bytes:
    raw = values.tobytes()
    return b"".join(
        [
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R",
            b"(K\x01" + b"".join(map(_python2_int, values.shape)) + b"\x86",
            b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
            b"\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb",
        ]
    )


def python2_pickle(batch: dict[str, NDArray[np.uint8] | list[int]]) -> bytes:
    """Pickle as the authors' Python 2 did, instruction by instruction: Python 3 writes strings in another way."""
    fields = b""
    for name, value in batch.items():
        fields += _python2_text(name.encode())
        fields += (
            b"](" + b"".join(map(_python2_int, value)) + b"e" if isinstance(value, list) else _python2_array(value)
        )
    return b"\x80\x02}(" + fields + b"u."


def tar_gz(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@dataclass
class OfficialCifar:
    """The records of a data set by the position of their file, and their forms on disk under `root`."""

    name: str
    records: list[NDArray[np.uint8]]
    root: Path
    monkeypatch: pytest.MonkeyPatch

    def contents(self, layout: Layout) -> dict[str, bytes]:
        if not layout.pickled:
            return {file: r.tobytes() for file, r in zip(layout.files, self.records, strict=True)}
        fields = ["labels"] if self.name == "cifar10" else ["coarse_labels", "fine_labels"]
        return {
            file: python2_pickle(
                {"data": r[:, -3072:]} | {field: r[:, column].tolist() for column, field in enumerate(fields)}
            )
            for file, r in zip(layout.files, self.records, strict=True)
        }

    def folder(self, layout: Layout) -> Path:
        folder = self.root / layout.folder
        folder.mkdir()
        for file, content in self.contents(layout).items():
            (folder / file).write_bytes(content)
        return folder

    def archive(self, layout: Layout) -> Path:
        members = {f"{layout.folder}/{file}": content for file, content in self.contents(layout).items()}
        path = tar_gz(self.root / layout.archive, {f"{layout.folder}/readme.html": b"hello", **members})
        self.declare_official(layout.archive, path.read_bytes())
        return path

    def declare_official(self, key: str, content: bytes) -> None:
        if key in SIZES:
            self.monkeypatch.setitem(SIZES, key, len(content))
        else:
            self.monkeypatch.setitem(CHECKSUMS, key, hashlib.md5(content).hexdigest())


def official_cifar(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> OfficialCifar:
    random = np.random.default_rng(7)
    label_bytes, classes, files = (1, 10, 6) if name == "cifar10" else (2, 100, 2)
    records = []
    for _ in range(files):
        labels = random.integers(0, classes, (IMAGES, label_bytes))
        labels[:2, -1] = (0, classes - 1)
        records.append(np.concatenate([labels, random.integers(0, 256, (IMAGES, 3072))], axis=1).astype(np.uint8))
    cifar = OfficialCifar(name, records, root, monkeypatch)
    for layout in LAYOUTS[name]:
        for file, content in cifar.contents(layout).items():
            cifar.declare_official(f"{layout.folder}/{file}", content)
    return cifar
