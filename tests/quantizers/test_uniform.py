from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pdqat.quantizers import UniformActivation, UniformWeight

SAMPLES: dict[str, Callable[[tuple[int, ...]], Tensor]] = {
    "normal": torch.randn,
    "uniform": lambda shape: torch.rand(shape) * 2 - 1,
    "heavy-tailed": lambda shape: torch.randn(shape) / torch.rand(shape).sqrt(),
}


def least_error(values: Tensor, integers: Tensor) -> float:
    """The least squared error of any of 1500 scales for the whole numbers in `integers`, by trying them all."""
    largest_scale = 1.3 * values.abs().max() / integers.max()
    scales = largest_scale * torch.linspace(0.002, 1, 1500, dtype=values.dtype).view(-1, 1)
    nearest = integers[torch.bucketize(values / scales, (integers[1:] + integers[:-1]) / 2)]
    return (values - scales * nearest).square().sum(1).min().item()


def symmetric_integers(bits: int) -> Tensor:
    limit = 2 ** (bits - 1) - 1
    return torch.tensor([-1.0, 1.0]) if bits == 1 else torch.arange(-limit, limit + 1.0)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 6, 8])
def test_weight_scale_of_a_tensor_against_brute_force(sample: str, bits: int) -> None:
    torch.manual_seed(0)
    weights = SAMPLES[sample]((16, 8, 4, 4)).double()
    error = (weights - UniformWeight().quantize(weights, bits)).square().sum().item()
    margin = 1.01 if bits < 8 else 1.1  # at 8 bits the error has hundreds of local minima that differ by chance
    assert error <= margin * least_error(weights.flatten(), symmetric_integers(bits).double())


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_weight_scale_of_each_channel_against_brute_force(sample: str, bits: int) -> None:
    torch.manual_seed(0)
    weights = SAMPLES[sample]((3, 64, 3, 3)).double() * torch.tensor([0.01, 1, 50]).view(3, 1, 1, 1)
    errors = (weights - UniformWeight(per_channel=True).quantize(weights, bits)).square().flatten(1).sum(1)
    for channel, error in zip(weights, errors.tolist(), strict=True):
        assert error <= 1.01 * least_error(channel.flatten(), symmetric_integers(bits).double())


@pytest.mark.parametrize("sample", ["normal", "uniform"])
@pytest.mark.parametrize("bits", [2, 4])
def test_weight_scale_of_a_large_tensor_is_searched_on_a_part_of_it(sample: str, bits: int) -> None:
    torch.manual_seed(0)
    weights = SAMPLES[sample]((384, 384)).double()
    error = (weights - UniformWeight().quantize(weights, bits)).square().sum().item()
    scale, integers = UniformWeight().codes(weights, bits).scale.item(), symmetric_integers(bits).double()
    for tried in (fraction * scale for fraction in torch.linspace(0.5, 1.5, 41).tolist()):
        nearest = (weights / tried).round().clamp(integers[0], integers[-1])
        assert error <= 1.01 * (weights - tried * nearest).square().sum().item()


@pytest.mark.parametrize("shape", [(32, 32), (300, 300)])
def test_a_single_large_weight_does_not_spoil_the_scale_of_the_rest(shape: tuple[int, int]) -> None:
    """As in the second projections of transformers, where one weight may be a hundred times as large as most."""
    torch.manual_seed(0)
    weights = torch.randn(shape).double()
    weights[0, 0] = 60.0
    rest = (weights - UniformWeight().quantize(weights, 2)).square().sum() - (60 - 1.5) ** 2
    assert rest < 0.35 * weights.numel(), "three levels on their own leave 0.19 of a normal distribution's energy"


@pytest.mark.parametrize("per_channel", [False, True])
def test_straight_through_has_the_gradient_of_the_surrogate(per_channel: bool) -> None:
    """Also where the scale is taken from the grid and not searched again."""
    torch.manual_seed(0)
    quantizer, weights = UniformWeight(per_channel), torch.randn(4, 32, requires_grad=True)
    (own,) = torch.autograd.grad(quantizer.straight_through(weights, 2).square().sum() / 2, weights)
    surrogate, low = quantizer.surrogate(weights, 2), quantizer.quantize(weights, 2).detach()
    (expected,) = torch.autograd.grad((surrogate * low).sum(), weights)
    torch.testing.assert_close(own, expected)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_calibrated_activation_scale_against_brute_force(signed: bool, bits: int) -> None:
    torch.manual_seed(0)
    activations = torch.randn(2000).double()
    activations = activations if signed else activations.relu()
    quantizer = UniformActivation().double()
    quantizer.calibrate(activations, bits)
    error = (activations - quantizer.quantize(activations, bits)).square().sum().item()
    integers = symmetric_integers(bits) if signed else torch.arange(2.0**bits)
    assert error <= 1.01 * least_error(activations, integers.double())


def test_one_bit_scale_is_the_mean_size() -> None:
    """The s that minimises sum (w - s sign(w))^2 is mean|w|."""
    weights = torch.tensor([0.5, -1.5, 1.0, -3.0])
    assert UniformWeight().quantize(weights, 1).tolist() == [1.5, -1.5, 1.5, -1.5]


def test_weights_already_on_a_grid_stay_put() -> None:
    weights = 0.25 * torch.tensor([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
    torch.testing.assert_close(UniformWeight().quantize(weights, 3), weights)


@pytest.mark.parametrize("bits", range(1, 9))
def test_range_of_the_integers(bits: int) -> None:
    weights = torch.linspace(-1, 1, 2001)
    grid = UniformWeight().codes(weights, bits)
    assert set(grid.integers.tolist()) <= set(symmetric_integers(bits).int().tolist())
    activation = UniformActivation()
    assert set(activation.codes(1000 * weights, bits).integers.tolist()) == set(range(2**bits))


def test_scales_per_channel_have_the_channels_shape() -> None:
    weights = torch.randn(5, 3, 2, 2)
    assert UniformWeight(per_channel=True).codes(weights, 4).scale.shape == (5, 1, 1, 1)
    assert UniformWeight().codes(weights, 4).scale.shape == ()


def test_a_channel_of_zeros_stays_zero_beside_others() -> None:
    weights = torch.randn(3, 10)
    weights[1] = 0
    result = UniformWeight(per_channel=True).quantize(weights, 4)
    assert result[1].tolist() == [0] * 10
    assert result.isfinite().all()
    assert result[0].any()


def test_activations_become_signed_with_the_first_negative_value_and_stay_so() -> None:
    quantizer = UniformActivation()
    tensor = torch.tensor([-1.0, 0.5, 1.0])
    quantizer.calibrate(tensor.relu(), 8)
    assert quantizer.quantize(tensor, 8)[0] == 0
    quantizer.observe(tensor, 8)
    assert quantizer.quantize(tensor, 8)[0] < 0
    quantizer.observe(tensor.relu(), 8)
    assert bool(quantizer.signed)


def test_running_scale_moves_to_the_data() -> None:
    """Data three times as large: each observation goes a twentieth of the way to the better scale."""
    torch.manual_seed(0)
    quantizer, data = UniformActivation(), torch.rand(1000)
    quantizer.calibrate(data, 4)
    before = quantizer.scale.item()
    scales = []
    for _ in range(300):
        quantizer.observe(3 * data, 4)
        scales.append(quantizer.scale.item())
    assert before < scales[0] < 1.1 * before
    assert scales[-1] == pytest.approx(3 * before, rel=0.05)


def test_looking_at_values_does_not_move_the_scale() -> None:
    quantizer, data = UniformActivation(), torch.randn(50)
    quantizer.calibrate(data, 4)
    before = {key: value.clone() for key, value in quantizer.state_dict().items()}
    quantizer.quantize(10 * data, 4)
    quantizer.straight_through(10 * data, 4)
    quantizer.codes(10 * data, 4)
    assert {key: value.tolist() for key, value in before.items()} == {
        key: value.tolist() for key, value in quantizer.state_dict().items()
    }


@pytest.mark.parametrize("bits", [2, 4])
def test_straight_through_gradient_is_one_in_range_and_zero_outside(bits: int) -> None:
    quantizer = UniformActivation()
    limit = 2**bits - 1  # the scale is 1
    tensor = torch.tensor([-0.5, 0.4, limit - 0.3, limit + 0.7], requires_grad=True)
    (gradient,) = torch.autograd.grad(quantizer.straight_through(tensor, bits).sum(), tensor)
    assert gradient.tolist() == [0, 1, 1, 0]


def test_straight_through_gradient_of_weights() -> None:
    torch.manual_seed(0)
    weights = torch.randn(100, requires_grad=True)
    quantizer = UniformWeight()
    (gradient,) = torch.autograd.grad(quantizer.straight_through(weights, 2).sum(), weights)
    scale = quantizer.codes(weights, 2).scale
    assert gradient.tolist() == (weights.abs() <= scale).float().tolist()
    assert 0 < gradient.sum() < 100
