"""Open image files with pillow, which is optional, and without trusting what they contain."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pdqat.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

# Named so that pillow tries no others: some of its readers start external programs.
FORMATS = {
    ".bmp": "BMP",
    ".gif": "GIF",
    ".jpeg": "JPEG",
    ".jpg": "JPEG",
    ".png": "PNG",
    ".ppm": "PPM",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
}


@contextmanager
def open_image(file: Path | IO[bytes], origin: str) -> Iterator["Image"]:
    """Open an image for the body of a `with`; anything wrong with it there becomes an InputError naming `origin`.

    Only the header is read at first. An image of more pixels than pillow's limit against decompression bombs is
    refused by then.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            f"Reading {origin} needs pillow, which isn't installed; `pip install pdqat[data]` installs it."
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=sorted(set(FORMATS.values()))) as image:
                yield image
    except InputError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise InputError(f"{origin} has more pixels than an image may have here: {error}") from error
    except Exception as error:  # pillow's readers raise nearly anything on broken files
        raise InputError(f"{origin} can't be read as an image: {error}.") from error
