"""Training on a folder of images."""

from pathlib import Path

import pytest
from PIL import Image

from command_line import refusal
from pdqat.cli import main
from pdqat.runs.folder import Run


def image_folder(path: Path, classes: list[str], images: int = 4) -> Path:
    for part in ("train", "test"):
        for shade, name in enumerate(classes):
            (path / part / name).mkdir(parents=True)
            for number in range(images):
                Image.new("RGB", (9, 9), (40 * shade, 10 * number, 0)).save(path / part / name / f"{number}.png")
    return path


def test_a_folder_of_images_is_trained_on(tmp_path: Path) -> None:
    images = image_folder(tmp_path / "images", ["cat", "dog"], images=6)
    arguments = ["--data", "folder", "--data-path", str(images), "--image-size", "8", "--batch-size", "4"]
    assert main(["train", "--epochs", "1", *arguments, "--out", str(tmp_path / "run")]) == 0
    assert Run.open(tmp_path / "run").summary()["accuracy"].keys() == {"full", "2-bit"}


@pytest.mark.parametrize(
    ("classes", "images", "size", "sentence"),
    [
        (["cat", "dog"], 4, "2", "can't take images of shape (3, 2, 2)"),
        (["cat"], 4, "8", "one class only"),
        (["cat", "dog"], 0, "8", "has no images"),
        ([], 0, "8", "train is missing"),
        (["cat", "dog"], 1, "8", "leaves nothing to validate on"),
    ],
)
def test_folders_of_images_that_can_not_be_trained_on_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], classes: list[str], images: int, size: str, sentence: str
) -> None:
    folder = image_folder(tmp_path / "images", classes, images)
    arguments = ["--data", "folder", "--data-path", str(folder), "--image-size", size]
    assert sentence in refusal(capsys, "train", *arguments, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
