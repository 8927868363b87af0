"""Small pictures inside a page: PNG files of bytes, written without an imaging library."""

import base64
import struct
import zlib

import torch
from torch import Tensor

GREY, COLOUR = 0, 2
"""Kinds of pixels, as PNG numbers them."""


def min_max(image: Tensor) -> Tensor:
    """Any real image as bytes, its least value black and its largest white."""
    low, high = image.min(), image.max()
    return ((image - low) / (high - low).clamp_min(1e-12) * 255).round().to(torch.uint8)


def data_address(image: Tensor) -> str:
    """An address that holds the image [1 or 3, height, width] itself."""
    return f"data:image/png;base64,{base64.b64encode(png(image)).decode()}"


def png(image: Tensor) -> bytes:
    """The file of an image of bytes [1 or 3, height, width].

    >>> png(torch.zeros(1, 2, 2, dtype=torch.uint8))[:4]
    b'\\x89PNG'
    """
    channels, height, width = image.shape
    rows = image.permute(1, 2, 0).reshape(height, width * channels)
    unfiltered = torch.cat([torch.zeros(height, 1, dtype=torch.uint8), rows], 1)  # each row says first how it is coded
    header = struct.pack(">IIBBBBB", width, height, 8, GREY if channels == 1 else COLOUR, 0, 0, 0)
    pixels = zlib.compress(unfiltered.numpy().tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
