"""The 8 x 8 handwritten digits that scikit-learn brings along: real data for a first run within a minute."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from pdqat.data.augmentation import Augmentation
from pdqat.data.dataset import Dataset, channel_statistics
from pdqat.errors import InputError


def digits() -> Dataset:
    """Return scikit-learn's 1,797 digits as bytes; every fifth image of each class is a test image.

    Examples:
        >>> digits().images.shape[1:]
        torch.Size([1, 8, 8])
    """
    with gzip.open(_file()) as file:
        rows = torch.from_numpy(np.loadtxt(file, delimiter=","))  # 64 pixels in sixteenths and the label
    sixteenths = rows[:, :-1].reshape(-1, 1, 8, 8)
    images = (sixteenths * (255 / 16)).round().to(torch.uint8)
    labels = rows[:, -1].to(torch.int64)
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


def _file() -> Path:
    """Where scikit-learn keeps them; to import it would take longer than all else that a short run needs."""
    try:
        package = find_spec("sklearn")
    except ValueError:  # what it says of a module that stands for one that is missing
        package = None
    file = package and package.origin and Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if not file or not file.is_file():
        raise InputError(
            "The data set 'digits' needs scikit-learn, which isn't installed; `pip install pdqat[data]` installs it."
        )
    return file
