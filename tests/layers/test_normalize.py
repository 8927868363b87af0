"""Batch normalisation by sums against torch's own."""

import copy

import pytest
import torch
from torch import nn

from pdqat.layers.normalize import _by_sums, normalize

SHAPES = [(16, 3), (8, 3, 5), (4, 3, 5, 6), (2, 3, 4, 5, 6)]
KINDS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_values_gradients_and_statistics_are_torchs(shape: tuple[int, ...], affine: bool) -> None:
    torch.manual_seed(0)
    theirs = KINDS[len(shape)](3, affine=affine, momentum=0.3).double()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    assert theirs.running_mean is not None
    nn.init.normal_(theirs.running_mean)
    ours = copy.deepcopy(theirs)
    x = torch.randn(shape, dtype=torch.float64) * 3 + 2
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    weights = torch.randn(shape, dtype=torch.float64)
    for _ in range(2):
        outputs = [theirs(inputs[0]), _by_sums(ours, inputs[1])]
        torch.testing.assert_close(outputs[1], outputs[0])
        for output in outputs:
            (output * weights).sum().backward()
    torch.testing.assert_close(inputs[1].grad, inputs[0].grad)
    for mine, its in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


@pytest.mark.parametrize(
    ("mean", "spacing", "shape"), [(1, 1 / 8, (64, 4, 8, 8)), (30, 1 / 2, (64, 4, 8, 8)), (1000, 1, (16, 4, 1, 1))]
)
def test_float32_stays_exact_once_the_running_mean_has_followed(
    mean: int, spacing: float, shape: tuple[int, ...]
) -> None:
    """Values on so coarse a grid that their first sums, and those of their squares, are exact in any order."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(4)
    x = (torch.randn(shape) / spacing).round() * spacing + mean
    assert (x / spacing).square().sum((0, 2, 3)).max() < 2**24, "whole numbers that float32 holds"
    expected = torch.nn.functional.batch_norm(x.double(), None, None, training=True)
    first = (_by_sums(norm, x) - expected).abs().max()
    assert first < 1e-6 * mean**2  # r^2 roundings, and the extreme values are some deviations out
    for _ in range(100):
        output = _by_sums(norm, x)
    # Sums by halves round log2(4096) times; half of that is the deviation's error, with a few roundings of the values.
    assert (output - expected).abs().max() < 10 * 2**-24 * (1 + expected.abs().max())


def test_a_constant_channel_has_no_variance_below_zero() -> None:
    norm = nn.BatchNorm2d(2)
    output = _by_sums(norm, torch.full((4, 2, 3, 3), 1234.5))
    assert output.isfinite().all()


def test_a_model_in_bfloat16_keeps_its_statistics_in_bfloat16() -> None:
    norm = nn.BatchNorm2d(2).bfloat16()
    output = _by_sums(norm, torch.randn(4, 2, 3, 3).bfloat16() + 1)
    assert output.dtype is torch.bfloat16
    assert norm.running_mean is not None
    assert norm.running_mean.dtype is torch.bfloat16
    assert (norm.running_mean > 0).all()


def test_bfloat16_comes_back_as_bfloat16_with_float32_statistics() -> None:
    norm = nn.BatchNorm2d(2)
    output = _by_sums(norm, torch.randn(4, 2, 3, 3).bfloat16())
    assert output.dtype is torch.bfloat16
    assert norm.running_var is not None
    assert norm.running_var.dtype is torch.float32


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile uses what torch advises against
def test_frozen_statistics_stay_when_compiled(has_statistics: bool) -> None:
    norm = nn.BatchNorm2d(2, track_running_stats=has_statistics)
    norm.track_running_stats = False
    before = copy.deepcopy(norm)
    x = torch.randn(4, 2, 3, 3)
    compiled = torch.compile(lambda tensor: normalize(norm, tensor), backend="eager")
    torch.testing.assert_close(compiled(x), before(x))
    torch.testing.assert_close(norm.state_dict(), before.state_dict())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_gradients_are_torchs_although_statistics_move_before_the_backward_pass() -> None:
    torch.manual_seed(0)
    theirs = nn.BatchNorm2d(3)
    ours = copy.deepcopy(theirs)
    # The backend splits forward and backward as inductor does, but compiles nothing.
    compiled = torch.compile(lambda tensor: normalize(ours, tensor).clamp(0, 1), fullgraph=True, backend="aot_eager")
    weights = torch.randn(4, 3, 5, 6)
    for _ in range(3):
        x = torch.randn(4, 3, 5, 6) * 3 + 2
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        outputs = [theirs(inputs[0]).clamp(0, 1), compiled(inputs[1])]
        torch.testing.assert_close(outputs[1], outputs[0])
        for output in outputs:
            (output * weights).sum().backward()
        torch.testing.assert_close(inputs[1].grad, inputs[0].grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    for mine, its in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad, rtol=1e-4, atol=1e-5)
    assert ours.running_mean is not None
    assert not ours.running_mean.requires_grad
    assert [name for name, _ in ours.named_buffers()] == [name for name, _ in theirs.named_buffers()]
