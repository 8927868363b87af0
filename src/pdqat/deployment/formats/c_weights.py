"""Weights in the bits that they have: a weight is divisor x (slope x index + start), and its index is what is stored.

The weights of DoReFa with k bits are the 2^k odd numbers around 0, so slope is 2 and an index has k bits. The divisor,
which all weights of a layer share, is left to the rounding of the sums.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

WORD = 32
SIZES = (1, 2, 4)
"""Bits of an index; more are stored as bytes, which are the weights themselves."""
BYTE = 8


@dataclass(frozen=True)
class Weights:
    """The integer weights of a convolution or linear layer."""

    bits: int
    divisor: int
    slope: int
    start: int
    indices: np.ndarray
    """(outputs, terms); the terms are rows of the window, columns, channels. Of 8 bits: the weights."""

    @property
    def largest_sum(self) -> int:
        """What sums of products with codes of size 1 reach at most, on the way too."""
        terms = self.indices.shape[1]
        if self.bits == BYTE:
            return int(np.abs(self.indices).sum(1).max())
        return int(terms) * (self.slope * ((1 << self.bits) - 1) + abs(self.start))

    def planes(self) -> np.ndarray:
        """Words (outputs, bits, words): word by word, the bits of one plane."""
        bits = self.indices[:, None, :] >> np.arange(self.bits)[:, None] & 1
        return _words(bits, 1)

    def lines(self, kernel: tuple[int, int]) -> np.ndarray:
        """Words (outputs, bits, words): line by line a word for every column of a window."""
        height, width = kernel
        outputs = len(self.indices)
        columns = self.indices.reshape(outputs, height, width, -1).swapaxes(1, 2).reshape(outputs, 1, width, -1)
        words = _words(columns >> np.arange(self.bits)[:, None, None] & 1, 1)
        return words.swapaxes(2, 3).reshape(outputs, self.bits, -1)

    def packed(self) -> np.ndarray:
        """Words (outputs, words) of indices behind each other."""
        return _words(self.indices, self.bits)


def weights_of(weight: Tensor, free: Tensor | None = None) -> Weights:
    """Of a layer's weight (outputs, inputs, ...).

    free    outputs whose weights are 0 and count nothing: theirs may become others
    """
    ordered = weight.movedim(1, -1).reshape(len(weight), -1).numpy().astype(np.int64)
    counts = np.ones(len(ordered), bool) if free is None else ~free.numpy()
    values = np.unique(ordered[counts])
    divisor = max(int(np.gcd.reduce(values)), 1) if len(values) else 1
    values = values // divisor
    start = int(values.min()) if len(values) else 0
    slope = max(int(np.gcd.reduce(values - start)), 1) if len(values) else 1
    most = (int(values.max()) - start) // slope if len(values) else 0
    bits = next((size for size in SIZES if most < 1 << size), BYTE)
    if bits == BYTE:
        return Weights(BYTE, divisor, 1, 0, ordered // divisor)
    numbers = np.where(counts[:, None], ordered // divisor, start)
    return Weights(bits, divisor, slope, start, (numbers - start) // slope)


def _words(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers (..., n) of some bits, the first one in the lowest bits of the first word."""
    in_word = WORD // bits
    padded = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % in_word)])
    apart = padded.reshape(*numbers.shape[:-1], -1, in_word).astype(np.uint64)
    return np.asarray((apart << np.arange(0, WORD, bits, dtype=np.uint64)).sum(-1).astype(np.uint32))
