import pytest
import torch

from pdqat.quantizers import DoReFaWeight, NormalWeight

# The first channel has mean|w| = 1, the second 2. The range of 2 bits is 0.9957 x 3 / (2 x 0.79788) = 1.87190 of it.
WEIGHTS = [[-2.0, -0.5, 0.5, 1.0], [-1.0, 1.0, -2.0, 4.0]]
RANGE_OF_2_BITS = 1.871898


def weights() -> torch.Tensor:
    return torch.tensor(WEIGHTS, dtype=torch.float64)


def test_one_bit_is_the_sign_times_the_mean_of_the_channel() -> None:
    expected = [[-1, -1, 1, 1], [-2, 2, -2, 2]]
    torch.testing.assert_close(
        NormalWeight().quantize(weights(), 1), torch.tensor(expected, dtype=torch.float64), rtol=1e-4, atol=0
    )


def test_two_bits_by_hand() -> None:
    """Inner values are a third of the range, outer ones the range, and they meet at two thirds: 1.248 and 2.496."""
    grid = NormalWeight().codes(weights(), 2)
    assert grid.integers.tolist() == [[-3, -1, 1, 1], [-1, 1, -1, 3]]
    assert grid.scale.flatten().tolist() == pytest.approx([RANGE_OF_2_BITS / 3, 2 * RANGE_OF_2_BITS / 3], rel=1e-5)
    assert not grid.offset.any()


def test_eight_bits_fit_into_a_signed_byte() -> None:
    integers = NormalWeight().codes(100 * weights(), 8).integers
    assert integers.abs().max() <= 127
    assert integers.remainder(2).eq(0).any()


def test_bytes_can_have_seven_bits_of_range_and_one_scale() -> None:
    """The mean of all weights is 1.5; below 8 bits every channel keeps its own scale."""
    quantizer = NormalWeight(largest_byte=64, one_scale_of_bytes=True)
    grid = quantizer.codes(100 * weights(), 8)
    assert grid.integers.abs().max() <= 64
    assert grid.scale.numel() == 1
    assert float(grid.scale) == pytest.approx(150 * 0.0308 * 255 / (2 * 0.7978845608) / 64)
    assert quantizer.codes(weights(), 2).scale.numel() == 2


@pytest.mark.parametrize("bits", range(1, 9))
def test_no_range_suits_normal_weights_better(bits: int) -> None:
    """Squared error beside that of ranges which are a twentieth smaller and larger, on the same weights."""
    torch.manual_seed(0)
    tensor = torch.randn(1, 200_000, dtype=torch.float64)
    levels = 127 * 2 if bits == 8 else 2**bits - 1

    def error(largest: float) -> float:
        index = torch.round((0.5 + (tensor / largest).clamp(-1, 1) / 2) * levels)
        return float((tensor - largest * (2 * index - levels) / levels).square().mean())

    own = float(NormalWeight().codes(tensor, bits).scale) * (127 if bits == 8 else levels)
    assert error(own) < min(error(0.95 * own), error(1.05 * own))


def test_two_bits_are_put_to_use() -> None:
    """Of DoReFa's codes nearly all are the two inner ones."""
    torch.manual_seed(0)
    tensor = 0.05 * torch.randn(64, 576)
    outer = [
        float((quantizer.codes(tensor, 2).integers.abs() == 3).float().mean())
        for quantizer in (DoReFaWeight(), NormalWeight())
    ]
    assert outer[0] < 0.02
    assert 0.2 < outer[1] < 0.4


def test_gradient_by_hand() -> None:
    """With u = w / a, the gradient of w_j is g_j + s c sign(w_j) / 4, where s = sum_i g_i (q_i - u_i).

    Outside of the window g_j and u_i are left out.
    """
    tensor = torch.tensor([[-8.0, -0.5, 0.5, 1.0]], dtype=torch.float64, requires_grad=True)  # mean|w| = 2.5
    upstream = torch.tensor([[1.0, 2.0, 0.0, -1.0]], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(NormalWeight().straight_through(tensor, 2), tensor, upstream)
    c, a = RANGE_OF_2_BITS, 2.5 * RANGE_OF_2_BITS
    # a = 4.68, the window ends at 5/3 a = 7.80: only -8 is outside. Codes / 3: -1, -1/3, 1/3, 1/3.
    of_scale = 1 * -1 + 2 * (-1 / 3 + 0.5 / a) - 1 * (1 / 3 - 1 / a)
    # -8 is clipped to -5/3 of the range, which moves with the range; rounding then takes it to -1
    by_mean = [of_scale * c * sign / 4 for sign in (-1, -1, 1, 1)]
    expected = [0 + by_mean[0], 2 + by_mean[1], 0 + by_mean[2], -1 + by_mean[3]]
    assert gradient.flatten().tolist() == pytest.approx(expected, rel=1e-4)
