"""The 8 x 8 handwritten digits that scikit-learn brings along: real data for a first run within a minute."""

import torch

from pdqat.data.augmentation import Augmentation
from pdqat.data.dataset import Dataset, channel_statistics
from pdqat.errors import InputError


def digits() -> Dataset:
    """Return scikit-learn's 1,797 digits as bytes; every fifth image of each class is a test image.

    Example:
        >>> digits().images.shape[1:]
        torch.Size([1, 8, 8])
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InputError(
            "The data set 'digits' needs scikit-learn, which isn't installed; `pip install pdqat[data]` installs it."
        ) from error
    bunch = load_digits()
    sixteenths = torch.from_numpy(bunch.images).unsqueeze(1)
    images = (sixteenths * (255 / 16)).round().to(torch.uint8)
    labels = torch.from_numpy(bunch.target).to(torch.int64)
    # Chosen by rank within the class, not at random: the same part in every run, and all classes equally often.
    test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        test[(labels == digit).nonzero().flatten()[4::5]] = True
    mean, std = channel_statistics(images[~test])
    return Dataset(
        name="digits",
        images=images[~test],
        labels=labels[~test],
        test_images=images[test],
        test_labels=labels[test],
        classes=tuple(str(digit) for digit in range(10)),
        mean=mean,
        std=std,
        augmentation=Augmentation(flip=False, padding=1),
    )
