"""A labelled set of images held in memory as bytes, and how it is split for validation."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pdqat.data.augmentation import Augmentation
from pdqat.errors import InputError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test images with their labels, checked once here so that nothing later has to.

    Attributes:
        name: what the data set is called in reports and error messages.
        images: training images, uint8 [N, C, H, W].
        labels: their classes, int64 [N].
        test_images: test images, of the same size and channels.
        test_labels: their classes.
        classes: the name of each class; label k means `classes[k]`.
        mean: per channel, of `images / 255`.
        std: per channel, of `images / 255`.
        augmentation: what training does to this data set's images.
    """

    name: str
    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentation: Augmentation

    def __post_init__(self) -> None:
        for part, images, labels in (
            ("training", self.images, self.labels),
            ("test", self.test_images, self.test_labels),
        ):
            _check_part(f"The {part} part of data set {self.name!r}", images, labels, len(self.classes))
        if self.images.shape[1:] != self.test_images.shape[1:]:
            raise InputError(
                f"Data set {self.name!r} has training images of shape {tuple(self.images.shape[1:])} but test images "
                f"of shape {tuple(self.test_images.shape[1:])}; they must be the same."
            )
        if bool(self.labels.min() == self.labels.max()):
            raise InputError(
                f"The training part of data set {self.name!r} has images of one class only; "
                "a classifier needs at least two."
            )
        channels = self.images.shape[1]
        if len(self.mean) != channels or len(self.std) != channels:
            raise InputError(
                f"Data set {self.name!r} has {channels} channels but {len(self.mean)} means and {len(self.std)} "
                "standard deviations; there must be one of each per channel."
            )
        if not all(map(math.isfinite, self.mean)) or not all(math.isfinite(s) and s > 0 for s in self.std):
            raise InputError(
                f"Data set {self.name!r} has mean {self.mean} and std {self.std}; "
                "means must be finite, standard deviations finite and positive."
            )


def _check_part(part: str, images: Tensor, labels: Tensor, classes: int) -> None:
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise InputError(
            f"{part} has images of type {images.dtype} and shape {tuple(images.shape)}; "
            "they must be torch.uint8 [N, C, H, W]."
        )
    if labels.dtype != torch.int64 or labels.ndim != 1:
        raise InputError(
            f"{part} has labels of type {labels.dtype} and shape {tuple(labels.shape)}; they must be torch.int64 [N]."
        )
    if len(images) != len(labels):
        raise InputError(f"{part} has {len(images)} images but {len(labels)} labels; there must be one label an image.")
    if images.numel() == 0:
        raise InputError(f"{part} is empty (images of shape {tuple(images.shape)}); it must hold at least one image.")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InputError(
            f"{part} has labels from {low} to {high}; with {classes} classes they must be in 0..{classes - 1}."
        )


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation per channel of `images / 255`, for uint8 images [N, C, H, W].

    A channel that has the same value everywhere gets the standard deviation 1, so that dividing by it is harmless.

    Examples:
        >>> channel_statistics(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1))
        ((0.5,), (0.5,))
    """
    levels = torch.arange(256, dtype=torch.float64) / 255
    means, deviations = [], []
    for channel in images.unbind(1):
        # A histogram of the 256 levels is exact and needs no float copy of the images.
        share = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()
        mean = share @ levels
        deviation = (share @ (levels - mean) ** 2).sqrt().item()
        constant = int((share > 0).sum()) == 1
        means.append(mean.item())
        deviations.append(1.0 if constant else deviation)
    return tuple(means), tuple(deviations)


def split(dataset: Dataset, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Split the training images at random into a part to train on and a part to validate on.

    Args:
        dataset: whose training images to split.
        fraction: the share that goes to validation, between 0 and 1.
        seed: decides which images; the same seed always gives the same split.

    Returns:
        The indices of the training part and of the validation part.
    """
    count = len(dataset.labels)
    if not 0 < fraction < 1:
        raise InputError(f"The validation fraction is {fraction}; it must lie between 0 and 1, both excluded.")
    held_out = round(fraction * count)
    if held_out in (0, count):
        raise InputError(
            f"The validation fraction {fraction} of the {count} training images of {dataset.name!r} leaves "
            f"{'nothing to validate on' if held_out == 0 else 'nothing to train on'}."
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return order[held_out:], order[:held_out]
