import math

import pytest
import torch
from torch import Tensor

from pdqat.quantizers import LSQ


def esser_gradients(v: Tensor, s: float, low: int, high: int) -> tuple[Tensor, Tensor]:
    """Equations 3 and 5 of Esser et al. (2020), with Q_N = -low and Q_P = high.

    d vhat / d s = -v/s + round(v/s)   if -Q_N < v/s < Q_P,   -Q_N if v/s <= -Q_N,   Q_P if v/s >= Q_P
    d vhat / d v = 1                   if -Q_N < v/s < Q_P,   0 otherwise
    """
    ratio = v / s
    inside = (ratio > low) & (ratio < high)
    step = torch.where(inside, torch.round(ratio) - ratio, torch.where(ratio <= low, float(low), float(high)))
    return step, inside.to(v.dtype)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("step", [0.07, 0.6])
def test_gradients_are_those_of_esser(signed: bool, bits: int, step: float) -> None:
    torch.manual_seed(bits)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    tensor = torch.randn(40, dtype=torch.float64) * step * high / 1.5
    upstream = torch.randn(40, dtype=torch.float64)
    quantizer = LSQ(signed).double()
    with torch.no_grad():
        quantizer.step.fill_(step)
    tensor.requires_grad_()
    result = quantizer.straight_through(tensor, bits)
    by_tensor, by_step = torch.autograd.grad(result, (tensor, quantizer.step), upstream)

    expected_step, expected_tensor = esser_gradients(tensor.detach(), step, low, high)
    assert 0 < expected_tensor.sum() < 40  # some inside, some clipped
    torch.testing.assert_close(by_tensor, upstream * expected_tensor)
    scale = 1 / math.sqrt(40 * high)
    assert by_step.item() == pytest.approx(scale * (upstream * expected_step).sum().item(), rel=1e-6)


def test_one_signed_bit_is_the_sign() -> None:
    quantizer = LSQ(signed=True)
    with torch.no_grad():
        quantizer.step.fill_(0.5)
    assert quantizer.quantize(torch.tensor([-3.0, -0.1, 0.0, 0.1, 9.0]), 1).tolist() == [-0.5, -0.5, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("signed", "bits", "lowest", "highest"), [(True, 2, -2, 1), (True, 4, -8, 7), (False, 1, 0, 1), (False, 3, 0, 7)]
)
def test_range_of_the_integers(signed: bool, bits: int, lowest: int, highest: int) -> None:
    integers = LSQ(signed).codes(torch.linspace(-20, 20, 401), bits).integers
    assert sorted(set(integers.tolist())) == list(range(lowest, highest + 1))


def test_values_by_hand() -> None:
    quantizer = LSQ(signed=True)
    with torch.no_grad():
        quantizer.step.fill_(0.25)
    # t / s = -3, -1.2, -0.4, 0.8, 2.4, 8 with whole numbers from -2 to 1
    tensor = torch.tensor([-0.75, -0.3, -0.1, 0.2, 0.6, 2.0])
    assert quantizer.quantize(tensor, 2).tolist() == [-0.5, -0.25, 0, 0.25, 0.25, 0.25]


@pytest.mark.parametrize(("signed", "bits", "high"), [(True, 4, 7), (False, 4, 15), (True, 2, 1), (True, 1, 1)])
def test_step_starts_where_esser_starts_it(signed: bool, bits: int, high: int) -> None:
    tensor = torch.tensor([0.5, 1.0, 3.0, 2.0])  # mean|t| = 1.625
    quantizer = LSQ(signed)
    quantizer.calibrate(tensor, bits)
    assert quantizer.step.item() == pytest.approx(2 * 1.625 / math.sqrt(high))


def test_activations_become_signed_with_the_first_negative_value() -> None:
    quantizer = LSQ(signed=False)
    tensor = torch.tensor([-1.0, 2.0])
    assert quantizer.quantize(tensor, 2).tolist() == [0, 2]
    quantizer.observe(tensor.abs(), 2)
    assert quantizer.quantize(tensor, 2).tolist() == [0, 2]
    quantizer.observe(tensor, 2)
    assert quantizer.quantize(tensor, 2).tolist() == [-1, 1]
    quantizer.observe(tensor.abs(), 2)
    assert bool(quantizer.signed)


def test_calibration_on_zeros_keeps_the_step() -> None:
    quantizer = LSQ(signed=True)
    quantizer.calibrate(torch.zeros(5), 4)
    assert quantizer.step.item() == 1


def test_a_negative_step_counts_by_its_size() -> None:
    quantizer = LSQ(signed=True)
    with torch.no_grad():
        quantizer.step.fill_(-0.5)
    assert quantizer.quantize(torch.tensor([-1.1, 0.6]), 4).tolist() == [-1.0, 0.5]
