"""Random flips and crops of a whole batch at once.

The usual CIFAR recipe pads an image with zeros, crops it back to its size at a random place and mirrors it half of the
time. Done with tensor operations on the batch it costs less than a millisecond per 100 images, so training needs no
worker processes. It runs on the raw pixels, before normalisation: the border is black, as in the recipe.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pdqat.errors import InputError


@dataclass(frozen=True)
class Augmentation:
    """What training does to images: mirror each with probability 1/2 if `flip`, shift each by up to `padding` pixels.

    Examples:
        >>> augment = Augmentation(flip=True, padding=4)
        >>> images = torch.zeros(16, 3, 32, 32, dtype=torch.uint8)
        >>> augment(images, torch.Generator().manual_seed(0)).shape
        torch.Size([16, 3, 32, 32])
    """

    flip: bool
    padding: int

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise InputError(f"Augmentation got padding={self.padding}; it must be 0 or more pixels.")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return a randomly cropped and flipped copy of `images` [N, C, H, W]; the generator alone decides how."""
        count, channels, height, width = images.shape
        rows = torch.arange(height, device=images.device).expand(count, height)
        columns = torch.arange(width, device=images.device).expand(count, width)
        if self.flip:
            columns = torch.where(_draw(2, images, generator) == 1, width - 1 - columns, columns)
        if self.padding:
            images = F.pad(images, (self.padding,) * 4)
            rows = rows + _draw(2 * self.padding + 1, images, generator)
            columns = columns + _draw(2 * self.padding + 1, images, generator)
        # One gather of the chosen pixels from the flattened images does crop and flip together.
        chosen = rows.unsqueeze(2) * images.shape[3] + columns.unsqueeze(1)
        chosen = chosen.view(count, 1, height * width).expand(-1, channels, -1)
        return images.flatten(2).gather(2, chosen).view(count, channels, height, width)


def _draw(choices: int, images: Tensor, generator: torch.Generator) -> Tensor:
    """Return a column [N, 1] of random integers below `choices`, one for each image."""
    drawn = torch.randint(choices, (len(images), 1), generator=generator, device=generator.device)
    return drawn.to(images.device)
