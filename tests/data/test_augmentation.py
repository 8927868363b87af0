import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pdqat.data import Augmentation
from pdqat.errors import InputError


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def every_outcome(image: Tensor, flip: bool, padding: int) -> list[Tensor]:
    """All crops of the padded image and of its mirror image, made pixel by pixel."""
    height, width = image.shape[1:]
    outcomes = []
    for mirrored in (False, True) if flip else (False,):
        for down in range(-padding, padding + 1):
            for right in range(-padding, padding + 1):
                outcome = torch.zeros_like(image)
                for y in range(height):
                    for x in range(width):
                        column = x + right
                        if 0 <= y + down < height and 0 <= column < width:
                            column = width - 1 - column if mirrored else column
                            outcome[:, y, x] = image[:, y + down, column]
                outcomes.append(outcome)
    return outcomes


shapes = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))


@given(shapes, st.booleans(), st.integers(0, 2), st.integers(0, 1000))
def test_every_image_is_a_crop_of_its_padded_self(
    shape: tuple[int, int, int, int], flip: bool, padding: int, seed: int
) -> None:
    images = torch.randint(1, 256, shape, generator=generator(seed), dtype=torch.uint8)
    augmented = Augmentation(flip, padding)(images, generator(seed))
    assert augmented.shape == images.shape
    assert augmented.dtype == images.dtype
    for image, outcome in zip(images, augmented, strict=True):
        assert any(torch.equal(outcome, allowed) for allowed in every_outcome(image, flip, padding))


def test_every_outcome_is_about_equally_frequent() -> None:
    count, padding = 18_000, 1
    image = torch.arange(1, 10, dtype=torch.uint8).view(1, 3, 3)
    augmented = Augmentation(flip=True, padding=padding)(image.expand(count, 1, 3, 3), generator())
    outcomes = every_outcome(image, True, padding)
    frequency = [int((augmented == outcome).flatten(1).all(1).sum()) for outcome in outcomes]
    assert sum(frequency) == count
    assert max(abs(f - 1000) for f in frequency) < 5 * 1000**0.5


def test_images_are_flipped_half_of_the_time_and_independently() -> None:
    images = torch.tensor([1, 2], dtype=torch.uint8).expand(10_000, 1, 1, 2)
    flipped = Augmentation(flip=True, padding=0)(images, generator())[:, 0, 0, 0] == 2
    assert abs(int(flipped.sum()) - 5_000) < 250


def test_the_generator_alone_decides() -> None:
    images = torch.randint(256, (8, 3, 6, 6), generator=generator(), dtype=torch.uint8)
    augment = Augmentation(flip=True, padding=2)
    torch.manual_seed(1)
    first = augment(images, generator(5))
    torch.manual_seed(2)
    assert torch.equal(first, augment(images, generator(5)))
    assert not torch.equal(first, augment(images, generator(6)))


def test_floats_are_augmented_alike() -> None:
    images = torch.randint(256, (8, 3, 6, 6), generator=generator(), dtype=torch.uint8)
    augment = Augmentation(flip=True, padding=2)
    assert torch.equal(augment(images, generator()).float(), augment(images.float(), generator()))


def test_nothing_to_do_gives_the_same_images() -> None:
    images = torch.randint(256, (8, 3, 6, 6), generator=generator(), dtype=torch.uint8)
    assert torch.equal(Augmentation(flip=False, padding=0)(images, generator()), images)


def test_images_in_any_memory_format_are_accepted() -> None:
    images = torch.randint(256, (4, 3, 6, 5), generator=generator(), dtype=torch.uint8)
    augment = Augmentation(flip=True, padding=2)
    striped = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(augment(striped, generator()), augment(images, generator()))


def test_negative_padding_is_refused() -> None:
    with pytest.raises(InputError, match="padding=-1"):
        Augmentation(flip=True, padding=-1)
