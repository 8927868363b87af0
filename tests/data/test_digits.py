import sys

import pytest
import torch

from pdqat.data import Augmentation, digits
from pdqat.errors import InputError


def test_digits_are_whole_and_split_by_class() -> None:
    dataset = digits()
    assert len(dataset.labels) + len(dataset.test_labels) == 1797
    assert dataset.images.shape[1:] == (1, 8, 8)
    assert (int(dataset.images.min()), int(dataset.images.max())) == (0, 255)
    share = torch.bincount(dataset.test_labels) / (torch.bincount(dataset.test_labels) + torch.bincount(dataset.labels))
    assert share.tolist() == pytest.approx([0.2] * 10, abs=0.01)
    assert dataset.augmentation == Augmentation(flip=False, padding=1)


def test_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    dataset, theirs = digits(), load_digits()
    test = torch.zeros(1797, dtype=torch.bool)
    for digit in range(10):
        test[torch.from_numpy(theirs.target == digit).nonzero().flatten()[4::5]] = True
    images = torch.from_numpy(theirs.images).mul(255 / 16).round().to(torch.uint8).unsqueeze(1)
    labels = torch.from_numpy(theirs.target)
    assert torch.equal(dataset.images, images[~test])
    assert torch.equal(dataset.labels, labels[~test])
    assert torch.equal(dataset.test_images, images[test])
    assert torch.equal(dataset.test_labels, labels[test])


def test_digits_are_the_same_whatever_the_seed() -> None:
    torch.manual_seed(1)
    first = digits()
    torch.manual_seed(2)
    assert torch.equal(first.test_images, digits().test_images)


def test_missing_scikit_learn_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=r"pip install pdqat\[data\]"):
        digits()
