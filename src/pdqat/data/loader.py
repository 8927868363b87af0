"""Batches of normalised images from tensors in memory."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pdqat.data.augmentation import Augmentation
from pdqat.errors import InputError


class Batches:
    """Iterate over (images, labels) in batches, with images normalised to (x / 255 - mean) / std.

    Each pass over it is one epoch. With a generator every epoch has a new random order, and `augmentation` draws from
    the same generator: its state is all there is to save to continue a run exactly.

    Examples:
        >>> images = torch.zeros(10, 1, 8, 8, dtype=torch.uint8)
        >>> batches = Batches(images, torch.arange(10), mean=(0.5,), std=(0.25,), batch_size=4)
        >>> [len(y) for x, y in batches]
        [4, 4, 2]
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        mean: Sequence[float],
        std: Sequence[float],
        batch_size: int,
        augmentation: Augmentation | None = None,
        generator: torch.Generator | None = None,
        drop_last: bool = False,
        limit: int | None = None,
    ) -> None:
        """Prepare to iterate.

        Args:
            images: uint8 [N, C, H, W].
            labels: int64 [N].
            mean: per channel, in units where pixels are in [0, 1].
            std: per channel, in the same units.
            batch_size: images per batch; the last batch may have fewer.
            augmentation: what to do to the raw images first; needs a generator.
            generator: shuffles and augments; without one the images come in order.
            drop_last: leave out a last batch with fewer images. Training with batch normalisation wants that, because
                it fails on a batch of one image.
            limit: end an epoch after so many images, drawn anew each time if there is a generator.
        """
        if len(images) != len(labels):
            raise InputError(f"Batches got {len(images)} images but {len(labels)} labels; they must be equally many.")
        if batch_size < 1:
            raise InputError(f"Batches got batch_size={batch_size}; it must be at least 1.")
        if limit is not None and limit < 1:
            raise InputError(f"Batches got limit={limit}; it must be at least 1.")
        if drop_last and batch_size > len(images):
            raise InputError(
                f"Batches got batch_size={batch_size} for {len(images)} images; with drop_last that leaves no batch, "
                f"so batch_size must be at most {len(images)}."
            )
        if augmentation is not None and generator is None:
            raise InputError("Batches got an augmentation but no generator; random augmentation needs one.")
        self.images = images
        self.labels = labels
        self.batch_size = batch_size
        self.augmentation = augmentation
        self.generator = generator
        self.drop_last = drop_last
        self.limit = limit
        shape = (1, -1, 1, 1)
        self._mean = 255 * torch.tensor(mean, dtype=torch.float32, device=images.device).view(shape)
        self._std = 255 * torch.tensor(std, dtype=torch.float32, device=images.device).view(shape)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        whole, rest = divmod(self._count(), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield float32 images [B, C, H, W], channels last in memory, and int64 labels [B], one epoch."""
        drawn = self._drawn()
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            indices = drawn[start : start + self.batch_size]
            images = self.images[indices]
            if self.augmentation is not None and self.generator is not None:
                images = self.augmentation(images, self.generator)
            images = images.to(torch.float32, memory_format=torch.channels_last)
            yield images.sub_(self._mean).div_(self._std), self.labels[indices]

    def _count(self) -> int:
        return len(self.images) if self.limit is None else min(self.limit, len(self.images))

    def _drawn(self) -> Tensor:
        """The images of an epoch, by their indices."""
        count, device = len(self.images), self.images.device
        if self.generator is None:
            return torch.arange(count, device=device)[: self._count()]
        shuffled = torch.randperm(count, generator=self.generator, device=self.generator.device)
        return shuffled.to(device)[: self._count()]
