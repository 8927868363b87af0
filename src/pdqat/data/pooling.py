"""Smaller images by average pooling, for trials that many trainings have to fit into."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

from pdqat.data.augmentation import Augmentation
from pdqat.data.dataset import Dataset, channel_statistics
from pdqat.errors import InputError

IMAGES_AT_ONCE = 1000
"""As floats all of them would take four times the memory of the bytes."""


def pooled(dataset: Dataset, size: int) -> Dataset:
    """The data set with images of `size` x `size` pixels, each the mean of a square, shifted by an eighth at most.

    `size` has to divide the images' own; at their own size the data set is returned as it is.
    """
    height, width = dataset.images.shape[2:]
    if size == height == width:
        return dataset
    if size < 1 or height != width or height % size:
        allowed = ", ".join(str(side) for side in range(1, height + 1) if height % side == 0)
        raise InputError(f"image_size is {size}, but images of {dataset.name} can be pooled to {allowed} pixels only")
    images = _means(dataset.images, height // size)
    mean, std = channel_statistics(images)
    return dataclasses.replace(
        dataset,
        images=images,
        test_images=_means(dataset.test_images, height // size),
        mean=mean,
        std=std,
        augmentation=Augmentation(flip=dataset.augmentation.flip, padding=size // 8),
    )


def _means(images: Tensor, side: int) -> Tensor:
    parts = [images[start : start + IMAGES_AT_ONCE] for start in range(0, len(images), IMAGES_AT_ONCE)]
    return torch.cat([F.avg_pool2d(part.float(), side).round_().to(torch.uint8) for part in parts])
