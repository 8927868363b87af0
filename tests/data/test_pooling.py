"""Images made smaller by average pooling."""

import pytest
import torch

from pdqat.data import Augmentation, Dataset, channel_statistics
from pdqat.data.pooling import pooled
from pdqat.errors import InputError


def dataset() -> Dataset:
    images = torch.randint(256, (6, 3, 32, 32), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    labels = torch.arange(6) % 2
    mean, std = channel_statistics(images)
    return Dataset("noise", images, labels, images[:2], labels[:2], ("a", "b"), mean, std, Augmentation(True, 4))


def test_a_pixel_is_the_mean_of_its_square() -> None:
    before, after = dataset(), pooled(dataset(), 16)
    assert after.images.shape == (6, 3, 16, 16)
    assert after.test_images.shape == (2, 3, 16, 16)
    square = before.images[4, 1, 6:8, 10:12].float()
    assert after.images[4, 1, 3, 5] == square.mean().round()
    assert (after.mean, after.std) == channel_statistics(after.images)
    assert max(after.std) < min(before.std)
    assert after.augmentation == Augmentation(flip=True, padding=2)


def test_at_their_own_size_images_stay_as_they_are() -> None:
    same = dataset()
    assert pooled(same, 32) is same


@pytest.mark.parametrize("size", [12, 64])
def test_a_size_that_does_not_divide_is_refused(size: int) -> None:
    with pytest.raises(InputError, match=rf"image_size is {size}, but images of noise can be pooled to 1, 2, 4, 8, 16"):
        pooled(dataset(), size)
