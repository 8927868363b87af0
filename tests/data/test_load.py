from pathlib import Path

import pytest

from official_cifar import OfficialCifar
from pdqat.data import default_folder, load
from pdqat.data.cifar_files import CIFAR10_BINARY
from pdqat.errors import InputError


def test_digits_by_name() -> None:
    assert load("digits", None).name == "digits"


def test_cifar_is_looked_for_in_the_default_folder(cifar10: OfficialCifar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDQAT_DATA", str(cifar10.root))
    with pytest.raises(InputError, match="`pdqat data cifar10` fetches it"):
        load("cifar10", None)
    folder = cifar10.folder(CIFAR10_BINARY)
    assert load("cifar10", None).name == "cifar10"
    monkeypatch.setenv("PDQAT_DATA", "/nowhere")
    assert load("cifar10", folder).name == "cifar10"


def test_cifar_comes_in_its_own_size_or_in_one_that_divides_it(cifar10: OfficialCifar) -> None:
    folder = cifar10.folder(CIFAR10_BINARY)
    assert load("cifar10", folder).images.shape[2:] == (32, 32)
    assert load("cifar10", folder, 16).images.shape[2:] == (16, 16)


def test_default_folder_is_in_the_home_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PDQAT_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "pdqat"


def test_unusable_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'mnist'; there are digits, cifar10, cifar100, folder"):
        load("mnist", None)
    with pytest.raises(InputError, match="needs the path"):
        load("folder", None)
    with pytest.raises(InputError, match="can't be given"):
        load("digits", tmp_path)
