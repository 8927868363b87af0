"""The parts of C programs: packed weights, the arena, roundings, text that names can't break."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdqat.deployment.formats.c_arena import Buffer, least_words, place
from pdqat.deployment.formats.c_folder import without_numbers
from pdqat.deployment.formats.c_kernels import all_kernels, kernels_for
from pdqat.deployment.formats.c_rounding import product_rounding, sums_rounding
from pdqat.deployment.formats.c_rows import RowOperation
from pdqat.deployment.formats.c_tensors import bits_of
from pdqat.deployment.formats.c_text import plain_name, real, table
from pdqat.deployment.formats.c_weights import Weights, weights_of
from pdqat.deployment.integer.operations import RequantizedProduct
from pdqat.deployment.integer.sum_operations import SumsToCodes


def stored_weights(weights: Weights) -> np.ndarray:
    """Weights from their words, bit by bit."""
    if weights.bits == 8:
        return weights.divisor * weights.indices
    terms = weights.indices.shape[1]
    words, planes = weights.packed(), weights.planes()
    packed, from_planes = (np.zeros(weights.indices.shape, np.int64) for _ in range(2))
    for output in range(len(words)):
        for term in range(terms):
            bit = term * weights.bits
            packed[output, term] = int(words[output, bit // 32]) >> bit % 32 & (1 << weights.bits) - 1
            for plane in range(weights.bits):
                from_planes[output, term] += (int(planes[output, plane, term // 32]) >> term % 32 & 1) << plane
    assert (packed == from_planes).all()
    return weights.divisor * (weights.slope * packed + weights.start)


@given(st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 42), st.integers(1, 4), st.integers(1, 40), st.integers(0, 99))
def test_every_weight_comes_back(bits: int, fine: int, outputs: int, terms: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    levels = torch.randint(0, 1 << bits, (outputs, terms), generator=generator)
    weight = (2 * levels - (1 << bits) + 1) * min(fine, 127 // ((1 << bits) - 1)) if bits < 8 else levels - 128
    weights = weights_of(weight)
    assert weights.bits <= {3: 4}.get(bits, bits)
    assert (stored_weights(weights) == weight.numpy()).all()


@given(st.sampled_from([1, 2, 4]), *[st.integers(1, 3)] * 3, st.integers(1, 40), st.integers(0, 99))
def test_lines_have_a_word_for_every_column(
    bits: int, outputs: int, height: int, width: int, channels: int, seed: int
) -> None:
    shape = outputs, height * width * channels
    indices = torch.randint(0, 1 << bits, shape, generator=torch.Generator().manual_seed(seed)).numpy()
    lines = Weights(bits, 1, 1, 0, indices).lines((height, width))
    lines = lines.reshape(outputs, bits, -1, width)
    assert lines.shape[2] == -(-height * channels // 32)
    for output, row, column, channel in np.ndindex(outputs, height, width, channels):
        line, place = divmod(row * channels + channel, 32)
        planes = lines[output, :, line, column].astype(np.int64) >> place & 1
        assert (planes << np.arange(bits)).sum() == indices[output, (row * width + column) * channels + channel]


def test_channels_that_count_nothing_take_no_bits() -> None:
    weight = torch.tensor([[-127, 127], [0, 0]])
    assert weights_of(weight).bits == 2
    assert weights_of(weight, torch.tensor([False, True])).bits == 1


buffers = st.builds(lambda words, first, more: Buffer(words, first, first + more), *[st.integers(1, 9)] * 3)


@given(st.lists(buffers, min_size=1, max_size=12))
def test_buffers_in_use_at_one_time_never_overlap(needed: list[Buffer]) -> None:
    offsets, words = place(needed)
    assert words >= least_words(needed)
    for one, start in zip(needed, offsets, strict=True):
        assert start + one.words <= words
        for other, begin in zip(needed, offsets, strict=True):
            if other is not one and one.meets(other):
                assert start + one.words <= begin or begin + other.words <= start


def applied(rounding: RowOperation, numbers: np.ndarray) -> np.ndarray:
    """What a rounding by thresholds or a line makes of numbers (channels, n): a transcription of the kernels."""
    low, high = rounding.numbers.get("low", 0), rounding.numbers["high"]
    tables = {field: values.astype(np.int64) for field, (_, values) in rounding.tables.items()}
    if rounding.kernel in ("by_thresholds", "by_search"):
        thresholds = tables["thresholds"].T if rounding.kernel == "by_thresholds" else tables["thresholds"]
        counted = (numbers[:, :, None] >= thresholds[:, None, :]).sum(2)
        directions = tables.get("directions", np.ones(len(numbers)))
        return np.asarray(np.where(directions[:, None] > 0, low + counted, high - counted))
    assert rounding.kernel in ("by_line", "by_short_line")
    is_short = rounding.kernel == "by_short_line"
    starts = tables["short_starts" if is_short else "starts"][:, None]
    products = tables["slopes"][:, None] * numbers
    above = products + starts
    if is_short:
        assert max(np.abs(products).max(), np.abs(above).max()) < 2**31
    shifts = np.int64(rounding.numbers["shift"]) if is_short else tables["shifts"][:, None]
    return np.asarray(np.minimum(low + np.where(above < 0, 0, above >> shifts), high))


@given(st.sampled_from([(0, 1), (-1, 1), (0, 3), (0, 15), (-128, 127), (0, 255)]), st.integers(0, 200))
def test_roundings_of_sums_are_the_references(codes: tuple[int, int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scale = torch.randn(5, generator=generator) * (codes[1] - codes[0]) / 200
    scale[0] = 0
    shift, exact = torch.randn(5, generator=generator) * 10, torch.ones(5, dtype=torch.bool)
    operation = SumsToCodes(scale, shift, exact, torch.zeros(5), 256, *codes, False)
    sums = torch.arange(-256, 255)
    made = applied(sums_rounding(operation, -256, 254), sums.expand(5, -1).numpy())
    assert (made == operation(sums[:, None].expand(-1, 5)).T.numpy()).all()


@given(st.sampled_from([(0, 1), (0, 3), (0, 15), (-128, 127), (0, 255)]), st.integers(1, 127), st.integers(0, 200))
def test_roundings_of_products_are_the_references(codes: tuple[int, int], divisor: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    ones, reach = torch.ones(4), torch.randint(1, 3000, (4,), generator=generator)
    multiplier = torch.rand(4, generator=generator) * 4 * codes[1] / (reach * divisor)
    offset = torch.randint(-3000, 3000, (4,), generator=generator, dtype=torch.int32)
    operation = RequantizedProduct(
        torch.zeros(4, 1), {}, True, multiplier, offset, ones.bool(), 0 * ones, *codes, False
    )
    rounding = product_rounding(operation, divisor, -reach, reach)
    if rounding is not None:
        sums = torch.stack([torch.linspace(-int(end), int(end), 999).round().long() for end in reach])
        made = applied(rounding, sums.numpy())
        assert (made == operation.requantize((divisor * sums).T.double()).T.numpy()).all()


def rounding_to_bytes(reach: int) -> RowOperation:
    """Of sums from -reach to reach, all of which count."""
    ones = torch.ones(1)
    scale, exact = ones * 127.3 / reach, torch.ones(1, dtype=torch.bool)
    return sums_rounding(SumsToCodes(scale, 0.3 * ones, exact, 0 * ones, reach, -128, 127, False), -reach, reach)


def test_lines_of_small_sums_are_short() -> None:
    assert rounding_to_bytes(300).kernel == "by_short_line"
    assert rounding_to_bytes(2**20).kernel != "by_short_line"


@given(st.text("aZ0_.*/\\?\n\"'% é", max_size=120))
def test_names_stay_names(name: str) -> None:
    plain = plain_name(f"{name}*/ ??/\\\n\"'%d")
    assert plain.isascii()
    assert plain.replace("_", "").replace(".", "").isalnum() or not plain.strip("_.")
    assert len(plain) <= 100


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_real_numbers_come_back(value: float) -> None:
    assert np.float32(real(value).removesuffix("f")) == np.float32(value)


def test_a_program_has_the_kernels_that_it_calls_and_no_others() -> None:
    text = kernels_for("/* by_line */ copy_channels(0, &a, &b); read_bytes(&a, pixel, arena.row);")
    assert text.index("KERNEL int pixels_of(") < text.index("KERNEL void copy_channels(")
    assert text.count("KERNEL ") == 6
    assert all(f"{name}(" in body for name, body in all_kernels().items())


def test_numbers_of_tables_are_no_part_of_a_program() -> None:
    first, second = (table("float", "x", numbers) + "int y = 3;" for numbers in ([1.5, -2e-30], [0.0, 3.0]))
    assert without_numbers(first) == without_numbers(second)
    assert without_numbers(first) != without_numbers(first.replace("y = 3", "y = 4"))
    assert without_numbers(first) != without_numbers(table("float", "x", [1.5, 2, 3]) + "int y = 3;")
    assert without_numbers(first) != without_numbers(first.replace("1.5f", "puts()"))


@pytest.mark.parametrize(
    ("low", "high", "bits"), [(0, 1, 1), (0, 3, 2), (-1, 1, 2), (-2, 1, 2), (0, 255, 8), (-128, 127, 8)]
)
def test_planes_hold_all_codes(low: int, high: int, bits: int) -> None:
    assert bits_of(low, high) == bits
