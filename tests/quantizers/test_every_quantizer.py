"""What holds for every quantiser, over shapes, bits and scales."""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from pdqat.errors import InputError
from pdqat.quantizers import (
    LSQ,
    SCHEMES,
    DoReFaActivation,
    DoReFaByteActivation,
    DoReFaWeight,
    NormalWeight,
    Quantizer,
    UniformActivation,
    UniformWeight,
    scheme,
)

QUANTIZERS: dict[str, Callable[[], Quantizer]] = {
    "dorefa weight": DoReFaWeight,
    "dorefa weight unscaled": partial(DoReFaWeight, scaled=False),
    "dorefa activation": DoReFaActivation,
    "gradual activation": partial(DoReFaActivation, gradual=True),
    "normal weight per channel": NormalWeight,
    "dorefa byte activation": DoReFaByteActivation,
    "uniform weight": UniformWeight,
    "uniform weight per channel": partial(UniformWeight, per_channel=True),
    "uniform activation": UniformActivation,
    "lsq weight": partial(LSQ, signed=True),
    "lsq activation": partial(LSQ, signed=False),
}
REPEATABLE = [
    *("dorefa activation", "gradual activation", "dorefa byte activation", "uniform activation"),
    *("lsq weight", "lsq activation"),
]
every_quantizer = pytest.mark.parametrize("name", QUANTIZERS)
bit_widths = st.integers(1, 8)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Float32 tensors of two to four dimensions: small whole numbers, zeros and repeats, or noise, of any size."""
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=4, max_side=4))
    size = draw(st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
    if draw(st.booleans()):
        return torch.randn(shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 999)))) * size
    numbers = st.floats(-4, 4, width=32) | st.integers(-4, 4).map(float)
    return torch.from_numpy(draw(hnp.arrays(np.float32, shape, elements=numbers))) * size


def calibrated(name: str, tensor: Tensor, bits: int) -> Quantizer:
    quantizer = QUANTIZERS[name]()
    quantizer.calibrate(tensor, bits)
    return quantizer


def same_bits(first: Tensor, second: Tensor) -> bool:
    return first.dtype == second.dtype and torch.equal(first, second)


@every_quantizer
@given(tensor=tensors(), bits=bit_widths)
def test_integers_scale_and_offset_are_the_quantised_tensor(name: str, tensor: Tensor, bits: int) -> None:
    quantizer = calibrated(name, tensor, bits)
    grid = quantizer.codes(tensor, bits)
    assert grid.integers.dtype == torch.int32
    assert grid.integers.shape == tensor.shape
    assert same_bits(grid.integers.float() * grid.scale + grid.offset, quantizer.quantize(tensor, bits))


@every_quantizer
@given(tensor=tensors(), bits=bit_widths)
def test_bits_are_enough_for_the_integers(name: str, tensor: Tensor, bits: int) -> None:
    integers = calibrated(name, tensor, bits).codes(tensor, bits).integers
    span = int(integers.max() - integers.min())
    odd = name.startswith("dorefa weight") or (name.startswith("normal") and bits < 8)
    if odd or (bits == 1 and integers.min() == -1):  # odd whole numbers
        assert integers.remainder(2).eq(1).all()
        span //= 2
    assert span <= 2**bits - 1


@every_quantizer
@given(tensor=tensors(), bits=bit_widths)
def test_results_are_finite_and_look_like_the_tensor(name: str, tensor: Tensor, bits: int) -> None:
    quantizer = calibrated(name, tensor, bits)
    for result in (quantizer.full(tensor), quantizer.quantize(tensor, bits), quantizer.straight_through(tensor, bits)):
        assert result.shape == tensor.shape
        assert result.dtype == tensor.dtype
        assert result.isfinite().all()


@every_quantizer
@given(tensor=tensors(), bits=bit_widths)
def test_greater_stays_greater_or_equal(name: str, tensor: Tensor, bits: int) -> None:
    quantized = calibrated(name, tensor, bits).quantize(tensor, bits)
    channels = zip(tensor, quantized, strict=True) if "per channel" in name else [(tensor, quantized)]
    for before, after in channels:
        in_order = after.flatten()[before.flatten().argsort()]
        assert (in_order.diff() >= 0).all()


@pytest.mark.parametrize("name", REPEATABLE)
@given(tensor=tensors(), bits=bit_widths)
def test_quantising_twice_is_quantising_once(name: str, tensor: Tensor, bits: int) -> None:
    quantizer = calibrated(name, tensor, bits)
    once = quantizer.quantize(tensor, bits)
    assert same_bits(quantizer.quantize(once, bits), once)


@every_quantizer
@given(tensor=tensors(), bits=bit_widths)
def test_error_is_at_most_half_a_spacing_in_range(name: str, tensor: Tensor, bits: int) -> None:
    quantizer = calibrated(name, tensor, bits)
    grid = quantizer.codes(tensor, bits)
    values, full = grid.values(), quantizer.full(tensor)
    only_signs = bits == 1 and ("weight" in name or bool(quantizer.state_dict().get("signed", False)))
    half = grid.scale if name.startswith(("dorefa weight", "normal")) or only_signs else grid.scale / 2
    in_range = full == full.clamp(values.min(), values.max())
    if "per channel" in name:
        limit = values.abs().flatten(1).amax(1).view(-1, *[1] * (tensor.dim() - 1))
        in_range = full.abs() <= limit
    excess = (values - full).abs() - half * (1 + 1e-5)
    assert excess[in_range].le(1e-7 * full.abs().max()).all()


@every_quantizer
def test_full_is_the_limit_of_many_bits(name: str) -> None:
    torch.manual_seed(0)
    tensor = torch.randn(8, 20, dtype=torch.float64)
    errors = []
    many = (2, 4, 8) if name.startswith("normal") else (4, 8, 12, 16, 20)  # its ranges are known up to 8
    for bits in many:
        quantizer = QUANTIZERS[name]().double()
        quantizer.calibrate(tensor, bits)
        errors.append((quantizer.quantize(tensor, bits) - quantizer.full(tensor)).abs().max().item())
    assert all(after < 0.5 * before for before, after in itertools.pairwise(errors))
    assert errors[-1] < (2e-2 if many[-1] == 8 else 2e-3)


@every_quantizer
@given(tensor=tensors(), bits=bit_widths)
def test_straight_through_has_the_value_of_quantize(name: str, tensor: Tensor, bits: int) -> None:
    quantizer = calibrated(name, tensor, bits)
    assert same_bits(quantizer.straight_through(tensor.requires_grad_(), bits), quantizer.quantize(tensor, bits))


@every_quantizer
@given(tensor=tensors(), bits=bit_widths)
def test_straight_through_has_the_gradient_of_the_surrogate(name: str, tensor: Tensor, bits: int) -> None:
    quantizer = calibrated(name, tensor, bits)
    inputs = [tensor.requires_grad_(), *quantizer.parameters()]
    upstream = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0))
    straight = torch.autograd.grad(quantizer.straight_through(tensor, bits), inputs, upstream)
    surrogate = torch.autograd.grad(quantizer.surrogate(tensor, bits), inputs, upstream)
    assert all(map(torch.equal, straight, surrogate))


@every_quantizer
@given(tensor=tensors(), bits=bit_widths)
def test_no_gradient_passes_rounding(name: str, tensor: Tensor, bits: int) -> None:
    quantizer = calibrated(name, tensor, bits)
    quantized = quantizer.quantize(tensor.requires_grad_(), bits)
    if quantized.requires_grad:
        (gradient,) = torch.autograd.grad(quantized.sum(), tensor, allow_unused=True)
        assert gradient is None or not gradient.any()


@every_quantizer
@pytest.mark.parametrize("bits", range(1, 9))
def test_zeros_give_no_nan(name: str, bits: int) -> None:
    zeros = torch.zeros(3, 4, requires_grad=True)
    quantizer = calibrated(name, zeros.detach(), bits)
    quantizer.observe(zeros.detach(), bits)
    for result in (quantizer.full(zeros), quantizer.quantize(zeros, bits), quantizer.straight_through(zeros, bits)):
        assert result.isfinite().all()
        if result.requires_grad:
            (gradient,) = torch.autograd.grad(result.sum(), zeros, allow_unused=True)
            assert gradient is None or gradient.isfinite().all()
    assert not quantizer.full(zeros).any()


@every_quantizer
@given(tensor=tensors(), bits=bit_widths)
def test_looking_changes_no_state(name: str, tensor: Tensor, bits: int) -> None:
    quantizer = calibrated(name, tensor, bits)
    before = {key: value.clone() for key, value in quantizer.state_dict().items()}
    for look in (quantizer.quantize, quantizer.codes, quantizer.surrogate, quantizer.straight_through):
        look(tensor * 7, bits)
    quantizer.full(tensor * 7)
    after = quantizer.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


def test_schemes_by_name() -> None:
    for name, expected in SCHEMES.items():
        assert scheme(name) is expected
        assert scheme(expected) is expected
    with pytest.raises(InputError, match="unknown quantizer 'dorfea'; choose one of dorefa, "):
        scheme("dorfea")
