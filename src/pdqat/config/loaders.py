"""Loaders: from the name of a data set, or a function of own code, to the batches of a run."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdqat import data
from pdqat.batches import Batches, check_repeatable, first_rows, on_device, pairs
from pdqat.config.device import device_of
from pdqat.config.own_code import call_own, is_own
from pdqat.config.train_config import SlackSource, TrainConfig
from pdqat.data import Dataset
from pdqat.errors import InputError
from pdqat.training.settings import epoch_seed

EVALUATION_BATCH = 500
EXAMPLE_SAMPLES = 64
OWN_OPTIONS = ("data_path", "image_size", "train_images", "validation", "augment", "normalize", "batch_size", "seed")
"""What a data function of own code may take by name."""


@dataclass(frozen=True)
class Loaders:
    """The batches of a run, and what is known of its data."""

    training: Batches
    validation: Batches
    test: Batches | None
    slacks: Batches | None
    """For fresh slacks; None where the running mean is taken."""
    plain_training: Batches
    """The training samples without augmentation."""
    example: Any
    """A few training inputs."""
    device: torch.device
    dataset: Dataset | None
    """Where the data is a set of images."""


def loaders_of(config: TrainConfig) -> Loaders:
    """The batches of a configuration; of one seed always the same."""
    device = device_of(config)
    if is_own(config.data):
        given = call_own(config.data, {name: getattr(config, name) for name in OWN_OPTIONS})
        if not isinstance(given, Dataset):
            return _of_own_loaders(config, given, device)
        dataset = given
    else:
        path = Path(config.data_path) if config.data_path else None
        dataset = data.load(config.data, path, config.image_size)
    return _of_dataset(config, _on(device, dataset), device)


def _of_dataset(config: TrainConfig, dataset: Dataset, device: torch.device) -> Loaders:
    if not config.normalize:
        channels = len(dataset.mean)
        dataset = dataclasses.replace(dataset, mean=(0.0,) * channels, std=(1.0,) * channels)
    training, validation = data.split(dataset, config.validation, config.seed)
    if config.train_images is not None and config.train_images > len(training):
        raise InputError(f"train_images is {config.train_images}, but there are only {len(training)} to train on")
    training = training[: config.train_images]
    if len(training) < 2:
        raise InputError(f"there is only {len(training)} image to train on; training needs at least 2")
    images, labels = dataset.images[training], dataset.labels[training]

    def plain(images: Tensor, labels: Tensor, **options: Any) -> data.Batches:
        return data.Batches(images, labels, dataset.mean, dataset.std, EVALUATION_BATCH, **options)

    shuffled = data.Batches(
        images,
        labels,
        dataset.mean,
        dataset.std,
        min(config.batch_size, len(images)),
        augmentation=dataset.augmentation if config.augment else None,
        generator=torch.Generator().manual_seed(epoch_seed(config.seed, 0)),
        drop_last=True,
    )
    drawn = plain(images, labels, generator=torch.Generator(), limit=config.dual_samples)
    example, _ = next(iter(plain(images[:EXAMPLE_SAMPLES], labels[:EXAMPLE_SAMPLES])))
    return Loaders(
        shuffled,
        plain(dataset.images[validation], dataset.labels[validation]),
        plain(dataset.test_images, dataset.test_labels),
        drawn if config.dual_slack is SlackSource.FRESH else None,
        plain(images, labels),
        example,
        device,
        dataset,
    )


def _of_own_loaders(config: TrainConfig, given: Any, device: torch.device) -> Loaders:
    parts = given if isinstance(given, Mapping) else _by_part(given)
    if not {"train", "validation"} <= set(parts) <= {"train", "validation", "test"}:
        keys = f" with the keys {', '.join(map(str, parts))}" if isinstance(given, Mapping) else ""
        raise InputError(
            f"{config.data} returned a {type(given).__name__}{keys}; it must return a pdqat.data.Dataset, or the "
            "loaders for training, validation and, where there are test samples, test: a tuple, or a dictionary with "
            "the keys train, validation and test"
        )
    for name, loader in parts.items():
        check_repeatable(loader, f"{name} of {config.data}")
    if config.dual_samples is not None:
        raise InputError("dual_samples draws from a data set of images, and --data names loaders of own code")
    torch.manual_seed(config.seed)  # a shuffling loader draws from torch's generator
    inputs, target = next(pairs(parts["train"]), (None, None))
    if inputs is None:
        raise InputError(f"train of {config.data} is empty: it has no batch")
    if not isinstance(target, Tensor) or target.is_floating_point() or target.is_complex():
        kind = str(target.dtype) if isinstance(target, Tensor) else type(target).__name__
        raise InputError(
            f"{config.data} gives targets of type {kind}; the command line trains classifiers, by cross-entropy on "
            "labels of type torch.int64: for any other loss use pdqat.fit"
        )
    training = parts["train"]
    return Loaders(
        training,
        parts["validation"],
        parts.get("test"),
        training if config.dual_slack is SlackSource.FRESH else None,
        training,
        on_device(first_rows(inputs, EXAMPLE_SAMPLES), device),
        device,
        None,
    )


def _by_part(given: Any) -> dict[str, Any]:
    """Of a tuple of two or three loaders; nothing of anything else."""
    parts = given if isinstance(given, tuple | list) and len(given) in (2, 3) else ()
    return dict(zip(("train", "validation", "test"), parts, strict=False))


def _on(device: torch.device, dataset: Dataset) -> Dataset:
    """All images in the device's memory: they are bytes, and there they are shuffled and augmented too."""
    tensors = ("images", "labels", "test_images", "test_labels")
    return dataclasses.replace(dataset, **{name: getattr(dataset, name).to(device) for name in tensors})
