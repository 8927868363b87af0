import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdqat.data import Augmentation, Dataset, channel_statistics, split
from pdqat.errors import InputError


def dataset(count: int = 10) -> Dataset:
    return Dataset(
        name="toy",
        images=torch.zeros(count, 3, 4, 4, dtype=torch.uint8),
        labels=torch.arange(count) % 2,
        test_images=torch.zeros(2, 3, 4, 4, dtype=torch.uint8),
        test_labels=torch.zeros(2, dtype=torch.int64),
        classes=("cat", "dog"),
        mean=(0.5, 0.5, 0.5),
        std=(0.1, 0.2, 0.3),
        augmentation=Augmentation(flip=False, padding=0),
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: replace(d, images=d.images[:0], labels=d.labels[:0]), "training part .* is empty"),
        (lambda d: replace(d, test_images=d.test_images[:0], test_labels=d.test_labels[:0]), "test part .* is empty"),
        (lambda d: replace(d, images=d.images[..., :0]), "is empty"),
        (lambda d: replace(d, labels=torch.ones_like(d.labels)), "one class only"),
        (lambda d: replace(d, labels=d.labels - 1), r"labels from -1 to 0; .* 0\.\.1"),
        (lambda d: replace(d, labels=d.labels + 1), r"labels from 1 to 2; .* 0\.\.1"),
        (lambda d: replace(d, test_labels=d.test_labels + 7), "labels from 7 to 7"),
        (lambda d: replace(d, images=d.images.float()), r"torch\.float32"),
        (lambda d: replace(d, images=d.images[0]), r"shape \(3, 4, 4\)"),
        (lambda d: replace(d, labels=d.labels.int()), r"torch\.int32"),
        (lambda d: replace(d, labels=d.labels.view(-1, 1)), r"shape \(10, 1\)"),
        (lambda d: replace(d, images=d.images[1:]), "9 images but 10 labels"),
        (lambda d: replace(d, test_images=d.test_images[:, :1]), r"\(3, 4, 4\) but test images of shape \(1, 4, 4\)"),
        (lambda d: replace(d, mean=(0.5,)), "3 channels but 1 means"),
        (lambda d: replace(d, std=(0.1, 0.0, 0.1)), "positive"),
        (lambda d: replace(d, mean=(0.1, math.nan, 0.1)), "finite"),
    ],
)
def test_unusable_data_is_refused(change: Callable[[Dataset], Dataset], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        change(dataset())


@given(st.integers(0, 1000), st.integers(1, 3), st.integers(2, 6))
def test_statistics_match_the_definition(seed: int, channels: int, side: int) -> None:
    shape = (5, channels, side, side)
    images = torch.randint(256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    mean, std = channel_statistics(images)
    scaled = images.double() / 255
    assert mean == pytest.approx(scaled.mean((0, 2, 3)).tolist())
    assert std == pytest.approx(scaled.std((0, 2, 3), correction=0).tolist())


def test_a_constant_channel_gets_a_harmless_deviation() -> None:
    images = torch.full((4, 2, 3, 3), 77, dtype=torch.uint8)
    images[0, 1] = 78
    mean, std = channel_statistics(images)
    assert mean[0] == pytest.approx(77 / 255)
    assert std[0] == 1.0
    assert 0 < std[1] < 0.01


@pytest.mark.parametrize(("count", "fraction", "held_out"), [(50, 0.1, 5), (10, 0.25, 2), (10, 0.9, 9), (2, 0.5, 1)])
def test_split_parts_have_the_right_size_and_share_nothing(count: int, fraction: float, held_out: int) -> None:
    train, validation = split(dataset(count), fraction, seed=3)
    assert len(validation) == held_out
    assert sorted([*train.tolist(), *validation.tolist()]) == list(range(count))


def test_split_is_decided_by_the_seed() -> None:
    data = dataset(100)
    first, again, other = (split(data, 0.1, seed)[1].tolist() for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_split_fraction_must_be_between_0_and_1(fraction: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        split(dataset(), fraction, seed=0)


@pytest.mark.parametrize(("fraction", "complaint"), [(0.01, "nothing to validate"), (0.99, "nothing to train")])
def test_split_parts_must_not_be_empty(fraction: float, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        split(dataset(), fraction, seed=0)
