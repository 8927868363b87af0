"""Packing: weights that take few values are stored as indices into a table of them, in as few bits as these need.

Two values take one bit, up to four two bits, both packed into bytes; up to sixteen take a UINT4 each. ONNX Runtime and
OpenVINO fold every operation that unpacks them into constants when they load the file: what runs is what runs without
packing. (ONNX's UINT2 would need opset 25, which OpenVINO does not read.)
"""

from dataclasses import dataclass

import numpy as np

BYTE = 8
IN_BYTES = (1, 2)
"""Bits of an index that are packed into bytes."""
UINT4 = 4


@dataclass(frozen=True)
class Packed:
    """Integer weights (channels first): table[index], and zero in channels that count nothing."""

    bits: int
    """Of an index."""
    table: np.ndarray
    """int8."""
    stored: np.ndarray
    """Indices: bytes whose lowest bits are the first of them, padded with zeros, or one index an element at 4 bits."""
    shape: tuple[int, ...]
    counts: np.ndarray | None
    """Per channel 1 or 0; None where all count."""


def pack(weight: np.ndarray) -> Packed | None:
    """Packed weights, or None where they take too many values.

    >>> packed = pack(np.array([[-127, 127, 127], [0, 0, 0]], np.int8))
    >>> packed.bits, packed.table.tolist(), packed.stored.tolist(), packed.counts.tolist()
    (1, [-127, 127], [6], [1, 0])
    """
    flat = weight.reshape(len(weight), -1)
    counts = np.asarray(flat.any(axis=1))
    table = np.unique(flat[counts]).astype(np.int8)
    bits = next((size for size in (*IN_BYTES, UINT4) if len(table) <= 1 << size), None)
    if bits is None or not len(table):
        return None
    indices = np.searchsorted(table, np.where(counts[:, None], flat, table[0])).reshape(-1)
    stored = indices.reshape(weight.shape) if bits == UINT4 else _in_bytes(indices, bits)
    return Packed(bits, table, stored, weight.shape, None if counts.all() else np.asarray(counts, np.int8))


def _in_bytes(indices: np.ndarray, bits: int) -> np.ndarray:
    powers = places(bits)
    padded = np.pad(indices, (0, -len(indices) % len(powers)))
    return np.asarray((padded.reshape(-1, len(powers)) * powers).sum(1), np.uint8)


def places(bits: int) -> np.ndarray:
    """What each of a byte's indices is multiplied with."""
    return (1 << bits) ** np.arange(BYTE // bits)
