"""The official CIFAR data sets, tiny."""

from pathlib import Path

import pytest

from official_cifar import OfficialCifar, official_cifar


@pytest.fixture
def cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OfficialCifar:
    return official_cifar("cifar10", tmp_path, monkeypatch)


@pytest.fixture
def cifar100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OfficialCifar:
    return official_cifar("cifar100", tmp_path, monkeypatch)
