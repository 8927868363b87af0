import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pdqat.quantizers import PowerOfTwo

sizes = st.floats(1e-6, 1e6)


def noise(seed: int, size: float) -> torch.Tensor:
    return size * torch.randn(6, 5, generator=torch.Generator().manual_seed(seed))


@given(st.integers(2, 8), st.integers(0, 99), sizes)
def test_values_are_the_nearest_multiples_of_the_smallest_power_of_two_that_reaches_them(
    bits: int, seed: int, size: float
) -> None:
    tensor = noise(seed, size)
    quantizer = PowerOfTwo()
    quantizer.calibrate(tensor, bits)
    grid = quantizer.codes(tensor, bits)
    limit, largest, step = 2 ** (bits - 1) - 1, tensor.abs().max(), grid.scale
    assert torch.frexp(step)[0] == 0.5
    assert largest <= step * limit
    assert largest > step / 2 * limit
    assert grid.integers.abs().max() <= limit  # the example is within the range
    assert ((grid.values() - tensor).abs() <= step / 2).all()
    assert quantizer.quantize(grid.values(), bits).equal(grid.values())


@given(st.lists(st.tuples(st.integers(0, 99), st.floats(0.01, 100)), min_size=1, max_size=6))
def test_sums_are_exact_in_any_order(terms: list[tuple[int, float]]) -> None:
    quantizer = PowerOfTwo()
    tensors = [noise(*each) for each in terms]
    for tensor in tensors:
        quantizer.calibrate(tensor, 8)
    grids = [quantizer.codes(tensor, 8) for tensor in tensors]
    floats = torch.stack([grid.values() for grid in grids])
    whole = torch.stack([grid.integers for grid in grids]).sum(0)
    assert floats.sum(0).equal(whole * grids[0].scale)
    assert floats.flip(0).sum(0).equal(whole * grids[0].scale)


def test_follows_a_larger_maximum_at_once_and_a_smaller_one_slowly() -> None:
    quantizer = PowerOfTwo()
    quantizer.calibrate(torch.tensor([1.0]), 8)
    quantizer.observe(torch.tensor([-4.0]), 8)
    assert quantizer.largest == 4
    for _ in range(100):
        quantizer.observe(torch.tensor([1.0]), 8)
    assert quantizer.largest.item() == pytest.approx(4 * 0.999**100, rel=1e-4)


def test_nothing_but_zeros_stays_zero() -> None:
    quantizer = PowerOfTwo()
    quantizer.calibrate(torch.zeros(3), 8)
    assert quantizer.quantize(torch.zeros(3), 8).equal(torch.zeros(3))


def test_straight_through_passes_what_is_in_range() -> None:
    quantizer = PowerOfTwo()
    quantizer.calibrate(torch.tensor([127.0]), 8)
    tensor = torch.tensor([0.4, -126.2, 130.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(quantizer.straight_through(tensor, 8).sum(), tensor)
    assert gradient.tolist() == [1, 1, 0]
