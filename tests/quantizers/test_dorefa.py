import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pdqat.quantizers import DoReFaActivation, DoReFaByteActivation, DoReFaWeight

# w = artanh of 0.5, -0.25, 0.125, 0.05, so tanh(w) / max|tanh(w)| = 1, -0.5, 0.25, 0.1
# and p = 1/2 + tanh(w) / (2 max|tanh(w)|)                         = 1, 0.25, 0.625, 0.55
WEIGHTS = [0.549306144334, -0.255412811883, 0.125657214140, 0.050041729278]
MEAN = 0.24510447490875  # (0.549306144334 + 0.255412811883 + 0.125657214140 + 0.050041729278) / 4

# (2 round(n p) - n) / n with n = 2^bits - 1
LEVELS = {
    1: [1, -1, 1, 1],  # n p = 1, 0.25, 0.625, 0.55           rounds to 1, 0, 1, 1
    2: [1, -1 / 3, 1 / 3, 1 / 3],  # n p = 3, 0.75, 1.875, 1.65          rounds to 3, 1, 2, 2
    4: [1, -7 / 15, 3 / 15, 1 / 15],  # n p = 15, 3.75, 9.375, 8.25         rounds to 15, 4, 9, 8
    8: [1, -127 / 255, 63 / 255, 25 / 255],  # n p = 255, 63.75, 159.375, 140.25   rounds to 255, 64, 159, 140
}
INTEGERS = {1: [1, -1, 1, 1], 2: [3, -1, 1, 1], 4: [15, -7, 3, 1], 8: [255, -127, 63, 25]}


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_weights_by_hand(bits: int) -> None:
    weights = torch.tensor(WEIGHTS, dtype=torch.float64)
    expected = torch.tensor(LEVELS[bits], dtype=torch.float64)
    torch.testing.assert_close(DoReFaWeight(scaled=False).quantize(weights, bits), expected)
    torch.testing.assert_close(DoReFaWeight().quantize(weights, bits), MEAN * expected)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_weight_integers_by_hand(bits: int) -> None:
    weights = torch.tensor(WEIGHTS, dtype=torch.float64)
    levels = 2**bits - 1
    for scaled, scale in ((True, MEAN / levels), (False, 1 / levels)):
        grid = DoReFaWeight(scaled).codes(weights, bits)
        assert grid.integers.tolist() == INTEGERS[bits]
        assert grid.scale.item() == pytest.approx(scale)
        assert grid.offset.item() == 0


def test_full_precision_weights_by_hand() -> None:
    weights = torch.tensor(WEIGHTS, dtype=torch.float64)
    expected = torch.tensor([1, -0.5, 0.25, 0.1], dtype=torch.float64)
    torch.testing.assert_close(DoReFaWeight(scaled=False).full(weights), expected)
    torch.testing.assert_close(DoReFaWeight().full(weights), MEAN * expected)


# a = -0.3, 0.2, 0.4, 0.55, 0.88, 1.7 clips to 0, 0.2, 0.4, 0.55, 0.88, 1
ACTIVATIONS = [-0.3, 0.2, 0.4, 0.55, 0.88, 1.7]
ACTIVATION_INTEGERS = {
    1: [0, 0, 0, 1, 1, 1],  # the clipped values
    2: [0, 1, 1, 2, 3, 3],  # times 3:   0, 0.6, 1.2, 1.65, 2.64, 3
    4: [0, 3, 6, 8, 13, 15],  # times 15:  0, 3, 6, 8.25, 13.2, 15
    8: [0, 51, 102, 140, 224, 255],  # times 255: 0, 51, 102, 140.25, 224.4, 255
}


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_activations_by_hand(bits: int) -> None:
    quantizer, activations = DoReFaActivation(), torch.tensor(ACTIVATIONS, dtype=torch.float64)
    integers = ACTIVATION_INTEGERS[bits]
    assert quantizer.codes(activations, bits).integers.tolist() == integers
    expected = torch.tensor([each / (2**bits - 1) for each in integers], dtype=torch.float64)
    torch.testing.assert_close(quantizer.quantize(activations, bits), expected)


def test_full_precision_activations_are_clipped() -> None:
    full = DoReFaActivation().full(torch.tensor(ACTIVATIONS))
    assert full.tolist() == torch.tensor([0, 0.2, 0.4, 0.55, 0.88, 1]).tolist()


@pytest.mark.parametrize("scaled", [True, False])
def test_gradient_of_full_precision_weights(scaled: bool) -> None:
    """The derivative of E tanh(w) / M, M = |tanh(w_0)|, written out.

    d full_i / d w_j = E (1 - t_j^2) (delta_ij / M - delta_j0 sign(t_0) t_i / M^2), with E a constant
    """
    weights = torch.tensor(WEIGHTS, dtype=torch.float64, requires_grad=True)
    upstream = torch.tensor([0.3, -1.2, 0.7, 2.0], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(DoReFaWeight(scaled).full(weights), weights, upstream)
    t = torch.tensor([0.5, -0.25, 0.125, 0.05], dtype=torch.float64)
    expected = (1 - t**2) * upstream / 0.5
    expected[0] -= (1 - t[0] ** 2) * (upstream * t).sum() / 0.25
    torch.testing.assert_close(gradient, (MEAN if scaled else 1) * expected)


def gradient_of(outputs: Tensor, inputs: Tensor, upstream: Tensor) -> list[float]:
    (gradient,) = torch.autograd.grad(outputs, inputs, upstream)
    result: list[float] = gradient.tolist()
    return result


def test_straight_through_activations_have_the_gradient_of_clipping() -> None:
    activations = torch.tensor(ACTIVATIONS, requires_grad=True)
    upstream = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert gradient_of(DoReFaActivation().straight_through(activations, 2), activations, upstream) == [0, 2, 3, 4, 5, 0]


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        # 1 bit: 1 - |a - 1/2|, so a = -0.6, -0.25, 0, 0.5, 0.9, 1.4 has
        (1, [0, 0.25, 0.5, 1, 0.6, 0.1]),
        # 2 bits: half a step is 1/6. a = 0 and 1 are in the middle of the fall, 0.9 is 0.4 of the way down
        (2, [0, 0, 0.5, 1, 0.8, 0]),
    ],
)
def test_gradient_of_gradual_clipping_by_hand(bits: int, expected: list[float]) -> None:
    activations = torch.tensor([-0.6, -0.25, 0.0, 0.5, 0.9, 1.4], dtype=torch.float64, requires_grad=True)
    outputs = DoReFaActivation(gradual=True).straight_through(activations, bits)
    assert gradient_of(outputs, activations, torch.ones_like(activations)) == pytest.approx(expected)


@given(st.integers(1, 8), st.floats(-2, 3))
def test_gradual_clipping_is_the_mean_of_clipping_within_half_a_step(bits: int, activation: float) -> None:
    half_step, count = 0.5 / (2**bits - 1), 4000
    moves = (torch.arange(count, dtype=torch.float64) + 0.5) / count * 2 - 1
    mean = (activation + half_step * moves).clamp(0, 1).mean()
    given_one = torch.tensor(activation, dtype=torch.float64)
    torch.testing.assert_close(DoReFaActivation(gradual=True).surrogate(given_one, bits), mean, atol=1e-6, rtol=0)


@given(st.integers(1, 8), st.integers(0, 99))
def test_gradual_clipping_changes_no_value(bits: int, seed: int) -> None:
    tensor = 2 * torch.randn(5, 7, generator=torch.Generator().manual_seed(seed))
    gradual, plain = DoReFaActivation(gradual=True), DoReFaActivation()
    assert gradual.straight_through(tensor, bits).equal(plain.straight_through(tensor, bits))
    assert gradual.full(tensor).equal(plain.full(tensor))


@given(st.integers(1, 8), st.integers(0, 99), st.sampled_from([64, 127]))
def test_signed_bytes_differ_from_dorefa_at_8_bits_only(bits: int, seed: int, largest: int) -> None:
    weight = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed))
    plain, signed = DoReFaWeight().codes(weight, bits), DoReFaWeight(largest_byte=largest).codes(weight, bits)
    if bits < 8:
        assert signed.integers.equal(plain.integers)
        assert signed.scale.equal(plain.scale)
        return
    full = DoReFaWeight().full(weight)
    assert signed.integers.abs().max() == largest
    assert (signed.values() - full).abs().max() <= signed.scale / 2 * (1 + 1e-5)
    assert signed.scale.item() == pytest.approx(weight.abs().mean().item() / largest)


def test_8_bits_hold_images_exactly() -> None:
    images = torch.arange(256).float() / 255
    quantizer = DoReFaByteActivation()
    quantizer.calibrate(images, 8)
    assert quantizer.codes(images, 8).integers.tolist() == list(range(256))


@given(st.integers(1, 7), st.integers(0, 99))
def test_below_8_bits_byte_activations_are_dorefas(bits: int, seed: int) -> None:
    tensor = torch.randn(5, 7, generator=torch.Generator().manual_seed(seed))
    quantizer = DoReFaByteActivation()
    quantizer.calibrate(tensor, bits)
    quantizer.observe(tensor, bits)
    assert quantizer.quantize(tensor, bits).equal(DoReFaActivation().quantize(tensor, bits))
    assert quantizer.full(tensor).equal(DoReFaActivation().full(tensor))


def test_negative_numbers_of_8_bits_are_not_cut_off() -> None:
    quantizer, tensor = DoReFaByteActivation(), torch.tensor([-3.0, 0.5, 2.0])
    quantizer.calibrate(tensor.abs(), 8)
    assert quantizer.quantize(tensor, 8)[0] == 0
    quantizer.observe(tensor, 8)
    assert (quantizer.quantize(tensor, 8) - tensor).abs().max() <= 3 / 127 / 2
    quantizer.observe(torch.tensor([4.0]), 8)
    assert quantizer.codes(torch.tensor([-5.0, 4.0]), 8).integers.tolist() == [-127, 127]
