import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from official_cifar import OfficialCifar, tar_gz
from pdqat.data import load_cifar
from pdqat.data.cifar_classes import CIFAR10_CLASSES, CIFAR100_CLASSES
from pdqat.data.cifar_files import CIFAR10_BINARY, CIFAR10_PYTHON, CIFAR100_BINARY, CIFAR100_PYTHON, Layout
from pdqat.errors import InputError

CIFAR10_LAYOUTS = pytest.mark.parametrize("layout", [CIFAR10_BINARY, CIFAR10_PYTHON], ids=["binary", "python"])
CIFAR100_LAYOUTS = pytest.mark.parametrize("layout", [CIFAR100_BINARY, CIFAR100_PYTHON], ids=["binary", "python"])


def check(cifar: OfficialCifar, path: Path) -> None:
    dataset = load_cifar(cifar.name, path)
    records = np.concatenate(cifar.records[:-1])
    assert dataset.images.numpy().tobytes() == records[:, -3072:].tobytes()
    assert dataset.images.shape == (len(records), 3, 32, 32)
    assert dataset.labels.tolist() == records[:, -3073].tolist()
    assert dataset.test_images.numpy().tobytes() == cifar.records[-1][:, -3072:].tobytes()
    assert dataset.test_labels.tolist() == cifar.records[-1][:, -3073].tolist()
    assert dataset.labels.dtype == torch.int64
    assert dataset.augmentation.flip
    assert dataset.augmentation.padding == 4


@CIFAR10_LAYOUTS
@pytest.mark.parametrize("above", [False, True], ids=["itself", "folder above"])
@pytest.mark.parametrize("form", ["folder", "archive"])
def test_cifar10_from_every_official_form(cifar10: OfficialCifar, layout: Layout, form: str, above: bool) -> None:
    place = cifar10.folder(layout) if form == "folder" else cifar10.archive(layout)
    check(cifar10, place.parent if above else place)


@CIFAR100_LAYOUTS
@pytest.mark.parametrize("above", [False, True], ids=["itself", "folder above"])
@pytest.mark.parametrize("form", ["folder", "archive"])
def test_cifar100_from_every_official_form(cifar100: OfficialCifar, layout: Layout, form: str, above: bool) -> None:
    place = cifar100.folder(layout) if form == "folder" else cifar100.archive(layout)
    check(cifar100, place.parent if above else place)


def test_an_archive_may_have_another_name(cifar10: OfficialCifar) -> None:
    check(cifar10, cifar10.archive(CIFAR10_PYTHON).rename(cifar10.root / "downloaded"))


def test_class_names_are_complete() -> None:
    assert len(set(CIFAR10_CLASSES)) == 10
    assert len(set(CIFAR100_CLASSES)) == 100
    assert list(CIFAR100_CLASSES) == sorted(CIFAR100_CLASSES)


@CIFAR10_LAYOUTS
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_truncated_archive_is_refused(cifar10: OfficialCifar, layout: Layout, kept: float) -> None:
    archive = cifar10.archive(layout)
    content = archive.read_bytes()
    archive.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(InputError, match=layout.archive):
        load_cifar("cifar10", archive)


def test_an_archive_with_flipped_bits_is_refused(cifar10: OfficialCifar) -> None:
    archive = cifar10.archive(CIFAR10_BINARY)
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(InputError, match="cifar-10-binary"):
        load_cifar("cifar10", archive)


@CIFAR10_LAYOUTS
def test_a_changed_pixel_is_noticed(cifar10: OfficialCifar, layout: Layout) -> None:
    file = cifar10.folder(layout) / layout.files[2]
    content = bytearray(file.read_bytes())
    content[-200] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=rf"{layout.files[2]} in .* MD5 sum"):
        load_cifar("cifar10", file.parent)


@CIFAR10_LAYOUTS
def test_a_missing_file_is_named(cifar10: OfficialCifar, layout: Layout) -> None:
    folder = cifar10.folder(layout)
    (folder / layout.files[3]).unlink()
    with pytest.raises(InputError, match=f"lacks {layout.files[3]};"):
        load_cifar("cifar10", folder)


def test_a_python_batch_must_also_match_the_binary_version(cifar10: OfficialCifar) -> None:
    folder = cifar10.folder(CIFAR10_PYTHON)
    cifar10.declare_official("cifar-10-batches-bin/test_batch.bin", b"something else")
    with pytest.raises(InputError, match=r"official cifar-10-batches-bin/test_batch.bin"):
        load_cifar("cifar10", folder)


def test_binary_cifar100_is_held_to_its_size(cifar100: OfficialCifar) -> None:
    folder = cifar100.folder(CIFAR100_BINARY)
    (folder / "train.bin").write_bytes((folder / "train.bin").read_bytes()[:-1])
    with pytest.raises(InputError, match=r"train.bin in .* bytes but the official"):
        load_cifar("cifar100", folder)


def test_binary_cifar100_archive_is_held_to_its_sum(cifar100: OfficialCifar) -> None:
    archive = cifar100.archive(CIFAR100_BINARY)
    cifar100.declare_official(CIFAR100_BINARY.archive, b"something else")
    with pytest.raises(InputError, match=r"cifar-100-binary.tar.gz has the MD5 sum"):
        load_cifar("cifar100", archive)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_foreign_places_are_refused(tmp_path: Path, name: str) -> None:
    foreign = tar_gz(tmp_path / "foreign.tar.gz", {"../../etc/passwd": b"x", "data_batch_1.bin": b"y"})
    with pytest.raises(InputError, match=r"foreign.tar.gz holds none"):
        load_cifar(name, foreign)
    with pytest.raises(InputError, match="holds none of the files"):
        load_cifar(name, tmp_path)
    with pytest.raises(InputError, match=r"nowhere doesn't exist"):
        load_cifar(name, tmp_path / "nowhere")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(InputError, match=r"text is not a whole \.tar\.gz"):
        load_cifar(name, tmp_path / "text")


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'cifar11'"):
        load_cifar("cifar11", tmp_path)


PIXELS = np.zeros((2, 3072), dtype=np.uint8)


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        ([1, 2], "something other than a batch"),
        ({"labels": [0, 1]}, "no field 'data'"),
        ({"data": PIXELS[:, 1:], "labels": [0, 1]}, "no field 'data'"),
        ({"data": PIXELS}, "no field 'labels'"),
        ({"data": PIXELS, "labels": [0]}, "no field 'labels'"),
        ({"data": PIXELS, "labels": [0, 256]}, "no integers"),
        ({"data": PIXELS, "labels": [0, "1"]}, "no integers"),
    ],
)
def test_an_odd_batch_is_refused(cifar10: OfficialCifar, batch: object, complaint: str) -> None:
    folder = cifar10.folder(CIFAR10_PYTHON)
    content = pickle.dumps(batch, protocol=2)
    (folder / "data_batch_1").write_bytes(content)
    cifar10.declare_official("cifar-10-batches-py/data_batch_1", content)
    with pytest.raises(InputError, match=rf"data_batch_1 in .*{complaint}"):
        load_cifar("cifar10", folder)
