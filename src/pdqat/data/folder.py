"""A person's own images: train/<class>/*.png and test/<class>/*.png (or jpg, ...), resized and held in memory."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdqat.data.augmentation import Augmentation
from pdqat.data.dataset import Dataset, channel_statistics
from pdqat.data.image_file import FORMATS, open_image
from pdqat.errors import InputError


def image_folder(path: Path, size: int) -> Dataset:
    """Load the images under `path` as RGB images of `size` x `size` pixels.

    The folders in `path/train` name the classes; `path/test` has the same folders or some of them. Of each image the
    largest square in the middle is taken and resized. Hidden files and files that aren't images are left out.
    """
    if size < 1:
        raise InputError(f"image_folder got size={size}; it must be at least 1 pixel.")
    train = _class_folders(path / "train")
    test = _class_folders(path / "test")
    unknown = sorted(test.keys() - train.keys())
    if unknown:
        raise InputError(f"{path / 'test'} has the classes {', '.join(unknown)}, which {path / 'train'} has not.")
    classes = tuple(sorted(train))
    for name in classes:
        if not train[name]:
            raise InputError(f"{path / 'train' / name} has no images; allowed are {', '.join(FORMATS)}.")
    images, labels = _load(train, classes, size, path / "train")
    test_images, test_labels = _load(test, classes, size, path / "test")
    mean, std = channel_statistics(images)
    return Dataset(
        name=path.resolve().name or str(path),
        images=images,
        labels=labels,
        test_images=test_images,
        test_labels=test_labels,
        classes=classes,
        mean=mean,
        std=std,
        augmentation=Augmentation(flip=True, padding=size // 8),
    )


def _class_folders(part: Path) -> dict[str, list[Path]]:
    """Return the image files in each folder of `part`, in the order of their names."""
    if not part.is_dir():
        raise InputError(f"{part} is missing; images must be in train/<class>/ and test/<class>/.")
    folders = [folder for folder in part.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    if not folders:
        raise InputError(f"{part} has no folders in it; it must have one per class, with that class's images.")
    return {folder.name: sorted(file for file in folder.iterdir() if _is_image(file)) for folder in folders}


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in FORMATS and not file.name.startswith(".") and file.is_file()


def _load(folders: dict[str, list[Path]], classes: tuple[str, ...], size: int, part: Path) -> tuple[Tensor, Tensor]:
    files = [(file, label) for label, name in enumerate(classes) for file in folders.get(name, [])]
    if not files:
        raise InputError(f"{part} has no images in its class folders; allowed are {', '.join(FORMATS)}.")
    try:
        images = torch.empty(len(files), 3, size, size, dtype=torch.uint8)
    except RuntimeError as error:
        raise InputError(f"there is no memory for {len(files)} images of {size} x {size} pixels ({part}).") from error
    for row, (file, _) in enumerate(files):
        images[row] = torch.from_numpy(_square(file, size)).permute(2, 0, 1)
    return images, torch.tensor([label for _, label in files])


def _square(file: Path, size: int) -> NDArray[np.uint8]:
    with open_image(file, str(file)) as image:
        if image.mode.startswith(("I", "F")):
            raise InputError(f"{file} has more than 8 bits per channel (pillow's mode {image.mode}); convert it to 8.")
        from PIL import Image, ImageOps

        # A camera stores how it was held beside the pixels. Palettes with transparency go through RGBA.
        upright = ImageOps.exif_transpose(image)
        coloured = upright.convert("RGBA").convert("RGB") if upright.mode == "P" else upright.convert("RGB")
        return np.array(ImageOps.fit(coloured, (size, size), Image.Resampling.BICUBIC))
