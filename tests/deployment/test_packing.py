"""Packed weights, unpacked by an independent transcription."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdqat.deployment.formats.packing import Packed, pack


def unpacked(packed: Packed) -> np.ndarray:
    """Bit by bit."""
    size = int(np.prod(packed.shape))
    if packed.bits == 4:
        indices = packed.stored.reshape(-1)
    else:
        bits = np.unpackbits(packed.stored, bitorder="little").reshape(-1, packed.bits)
        indices = (bits * (1 << np.arange(packed.bits))).sum(1)[:size]
    weight = packed.table[indices].reshape(packed.shape)
    counts = 1 if packed.counts is None else packed.counts.reshape(-1, *[1] * (weight.ndim - 1))
    return np.asarray(weight * counts)


@given(st.integers(1, 16), st.integers(1, 5), st.integers(1, 7), st.booleans(), st.randoms(use_true_random=False))
def test_every_weight_comes_back(values: int, channels: int, inputs: int, dead: bool, random: Random) -> None:
    table = random.sample([each for each in range(-127, 128) if each], values)
    weight = np.array([[random.choice(table) for _ in range(inputs)] for _ in range(channels)], np.int8)
    if dead and channels > 1:
        weight[0] = 0
    packed = pack(weight)
    assert packed is not None
    assert (unpacked(packed) == weight).all()
    used = len(np.unique(weight[weight != 0]))
    assert packed.bits == next(each for each in (1, 2, 4) if used <= 2**each)


@pytest.mark.parametrize("weight", [np.arange(17, dtype=np.int8)[None], np.zeros((2, 3), np.int8)])
def test_others_stay_as_they_are(weight: np.ndarray) -> None:
    assert pack(weight) is None
