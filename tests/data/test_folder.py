import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pdqat.data import Augmentation, image_folder, load
from pdqat.errors import InputError

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def save(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (10, 10)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    save(tmp_path / "train" / "apple" / "1.png", RED)
    save(tmp_path / "train" / "apple" / "2.JPG", RED, (20, 12))
    save(tmp_path / "train" / "berry" / "1.bmp", BLUE)
    save(tmp_path / "test" / "berry" / "1.png", BLUE)
    return tmp_path


def test_images_are_loaded_class_by_class(root: Path) -> None:
    (root / "train" / "apple" / ".hidden.png").write_bytes(b"no image")
    (root / "train" / "apple" / "notes.txt").write_text("no image")
    (root / "train" / ".git").mkdir()
    (root / "train" / "readme.md").write_text("no class")
    dataset = image_folder(root, 16)
    assert dataset.classes == ("apple", "berry")
    assert dataset.labels.tolist() == [0, 0, 1]
    assert dataset.test_labels.tolist() == [1]
    assert dataset.images.shape == (3, 3, 16, 16)
    assert dataset.images[0, :, 8, 8].tolist() == list(RED)
    assert dataset.test_images[0, :, 8, 8].tolist() == list(BLUE)
    assert dataset.mean == pytest.approx((2 / 3, 0, 1 / 3), abs=0.01)
    assert dataset.std[1] > 0
    assert dataset.augmentation == Augmentation(flip=True, padding=2)


def test_the_middle_square_is_kept(root: Path) -> None:
    stripes = np.zeros((8, 24, 3), dtype=np.uint8)
    stripes[:, :8], stripes[:, 8:16], stripes[:, 16:] = RED, GREEN, BLUE
    Image.fromarray(stripes).save(root / "test" / "berry" / "1.png")
    image = image_folder(root, 8).test_images[0]
    assert (image[1] == 255).all()
    assert (image[0] == 0).all()


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "1"])
def test_every_usual_kind_of_image_becomes_rgb(root: Path, mode: str) -> None:
    Image.new("RGB", (9, 9), (255, 255, 255)).convert(mode).save(root / "test" / "berry" / "1.png")
    assert (image_folder(root, 4).test_images == 255).all()


def test_a_transparent_palette_is_read_without_a_warning(root: Path) -> None:
    image = Image.new("P", (9, 9), 1)
    image.putpalette([0, 0, 0, 255, 0, 0])
    image.save(root / "test" / "berry" / "1.png", transparency=b"\x00\xff")
    assert image_folder(root, 4).test_images[0, :, 0, 0].tolist() == list(RED)


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_missing_part_is_named(root: Path, part: str) -> None:
    (root / part).rename(root / "elsewhere")
    with pytest.raises(InputError, match=f"{part} is missing"):
        image_folder(root, 8)


def test_a_class_only_in_test_is_named(root: Path) -> None:
    save(root / "test" / "cherry" / "1.png", RED)
    with pytest.raises(InputError, match="the classes cherry"):
        image_folder(root, 8)


def test_parts_and_classes_without_images_are_named(root: Path) -> None:
    (root / "train" / "empty").mkdir()
    with pytest.raises(InputError, match="empty has no images"):
        image_folder(root, 8)
    (root / "train" / "empty").rmdir()
    (root / "test" / "berry" / "1.png").unlink()
    with pytest.raises(InputError, match="test has no images"):
        image_folder(root, 8)
    (root / "test" / "berry").rmdir()
    with pytest.raises(InputError, match="test has no folders"):
        image_folder(root, 8)


def test_one_class_is_not_enough(root: Path) -> None:
    (root / "train" / "apple").rename(root / "apple")
    with pytest.raises(InputError, match="one class only"):
        image_folder(root, 8)


@pytest.mark.parametrize("kept", [0, 20, 60])
def test_an_unreadable_image_is_named(root: Path, kept: int) -> None:
    file = root / "train" / "berry" / "1.bmp"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(InputError, match=r"berry/1\.bmp can't be read as an image"):
        image_folder(root, 8)


def test_deep_grey_values_are_refused(root: Path) -> None:
    Image.fromarray(np.full((9, 9), 60_000, dtype=np.uint16)).save(root / "test" / "berry" / "1.png")
    with pytest.raises(InputError, match="more than 8 bits"):
        image_folder(root, 8)


@pytest.mark.parametrize("limit", [60, 40], ids=["warning", "error"])
def test_a_decompression_bomb_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(InputError, match="more pixels than"):
        image_folder(root, 8)


def test_missing_pillow_is_explained(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError, match=r"pip install pdqat\[data\]"):
        image_folder(root, 8)


def test_an_impossible_size_is_refused(root: Path) -> None:
    with pytest.raises(InputError, match="size=0"):
        load("folder", root, 0)
