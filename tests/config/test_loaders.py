"""The batches that a configuration names."""

import torch
from torch import Tensor

from configured import build, small
from pdqat import data
from pdqat.batches import Batches, pairs
from pdqat.config.loaders import loaders_of
from pdqat.config.train_config import TrainConfig
from same_run import differences


def training_images(config: TrainConfig) -> tuple[Tensor, Tensor]:
    """All training images of a run on digits as one batch, as they are."""
    digits = data.load("digits")
    drawn = data.split(digits, config.validation, config.seed)[0][: config.train_images]
    mean, std = torch.tensor(digits.mean), torch.tensor(digits.std)
    return (digits.images[drawn] / 255 - mean) / std, digits.labels[drawn]


def pixels(batches: Batches | None) -> list[bytes]:
    """The images of batches as they were before they were normalised, sorted."""
    assert batches is not None
    digits = data.load("digits")
    images = torch.cat([images for images, _ in pairs(batches)])
    raw = 255 * (images * torch.tensor(digits.std) + torch.tensor(digits.mean))
    return sorted(image.numpy().tobytes() for image in raw.round().to(torch.uint8))


def seeded(batches: Batches | None, seed: int) -> list[tuple[Tensor, Tensor]]:
    """One pass over batches whose generator starts from the seed, as every epoch of a training does."""
    assert isinstance(batches, data.Batches)
    assert batches.generator is not None
    batches.generator.manual_seed(seed)
    return list(batches)


def test_fresh_slacks_can_be_of_some_training_images() -> None:
    config = small(dual_slack="fresh", dual_samples=50)
    slacks = loaders_of(config).slacks
    (images, labels), *others = seeded(slacks, 0)
    assert len(labels) == 50
    assert others == []
    assert set(pixels([(images, labels)])) <= set(pixels([training_images(config)]))
    (again, _), (later, _) = (seeded(slacks, seed)[0] for seed in (0, 1))
    assert torch.equal(images, again)
    assert not torch.equal(images, later)


def test_there_are_batches_for_slacks_only_where_they_are_fresh() -> None:
    assert loaders_of(small(dual_slack="running")).slacks is None


def test_training_batches_are_augmented_and_shuffled_anew_every_epoch() -> None:
    augmented, plain = (loaders_of(small(augment=augment)).training for augment in (True, False))
    for batches in (augmented, plain):
        first, again, second = (torch.cat([x for x, _ in seeded(batches, seed)]) for seed in (0, 0, 1))
        assert torch.equal(first, again)
        assert not torch.equal(first, second)
    training = pixels([training_images(small())])
    assert pixels(seeded(plain, 0)) == pixels(seeded(plain, 1)) == training
    assert pixels(seeded(augmented, 0)) != training
    assert pixels(loaders_of(small()).plain_training) == training


def test_validation_images_are_not_trained_on() -> None:
    digits = data.load("digits")
    loaders = loaders_of(small(train_images=None, augment=False, batch_size=2))
    training, validation, test = (pixels(it) for it in (loaders.training, loaders.validation, loaders.test))
    assert (len(training), len(validation)) == (1298, 144)
    assert sorted(training + validation) == sorted(image.numpy().tobytes() for image in digits.images)
    assert test == sorted(image.numpy().tobytes() for image in digits.test_images)


def test_a_configuration_always_names_the_same_batches_and_weights() -> None:
    first, second = build(small()), build(small())
    for left, right in zip(first.loaders.training, second.loaders.training, strict=True):
        assert torch.equal(left[0], right[0])
        assert torch.equal(left[1], right[1])
    assert differences(first.problem.net.state_dict(), second.problem.net.state_dict()) == []


def test_images_that_are_not_normalised_are_their_bytes_from_0_to_1() -> None:
    plain = loaders_of(TrainConfig(normalize=False))
    assert plain.dataset is not None
    images, _ = next(iter(plain.test or ()))
    assert torch.round(images * 255).equal(plain.dataset.test_images[: len(images)].float())
    assert float(images.max()) == 1.0
