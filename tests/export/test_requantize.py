"""Requantisation against the definition: every integer within reach gets the code that the function gives it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pdqat.export.requantize import Requantization, fit, thresholds


def line(slope: Tensor, offset: Tensor, low: int, high: int) -> "object":
    def function(integers: Tensor) -> Tensor:
        values = integers.double() * slope[:, None] + offset[:, None]
        return torch.round(values).clamp(low, high).int()

    return function


def codes_of(found: Requantization, integers: Tensor, fine: int, low: int, high: int) -> Tensor:
    counted = integers * ~found.constant[:, None]
    values = found.multiplier[:, None] * (fine * counted + found.offset[:, None]).float()  # as a runtime does it
    return torch.round(values).clamp(low, high).int()


@given(
    st.lists(st.tuples(st.floats(1e-4, 2), st.floats(-20, 20)), min_size=1, max_size=5),
    st.sampled_from([(0, 1), (0, 3), (0, 15), (-2, 1), (-1, 1)]),
    st.integers(1, 300),
    st.sampled_from([8, 42, 127]),
)
def test_every_integer_within_reach_gets_its_code(
    lines: list[tuple[float, float]], limits: tuple[int, int], reach: int, fine: int
) -> None:
    slope, offset = (torch.tensor(each, dtype=torch.float64) for each in zip(*lines, strict=True))
    function = line(slope, offset, *limits)
    low, high = torch.full((len(lines),), -reach), torch.full((len(lines),), reach)
    every = torch.arange(limits[0] + 1, limits[1] + 1)
    found = fit(thresholds(function, low, high, every), low, high, every, fine)  # type: ignore[arg-type]
    integers = torch.arange(-reach, reach + 1).expand(len(lines), -1)
    wanted, given_ = function(integers), codes_of(found, integers, fine, *limits)  # type: ignore[operator]
    for channel in range(len(lines)):
        if found.exact[channel]:
            assert given_[channel].equal(wanted[channel])
        else:
            assert (given_[channel] - wanted[channel]).abs().max() <= 1
    if limits[1] - limits[0] == 1:
        assert found.exact.all(), "a single threshold can always be met"


def test_thresholds_are_the_first_integers_that_reach_a_code() -> None:
    function = line(torch.tensor([0.5, 1.0]), torch.tensor([0.0, 2.0]), 0, 3)
    found = thresholds(function, torch.tensor([-4, 0]), torch.tensor([4, 9]), torch.arange(1, 4))  # type: ignore[arg-type]
    # 0.5 n rounds to 1 from n = 2 (0.5 goes to the even 0), to 2 from 3, and never to 3 below 5; n + 2 is 2 at once
    assert found.tolist() == [[2, 3, 5], [0, 0, 1]]


@pytest.mark.parametrize("code", [0, 2, 3])
def test_a_constant_is_met_everywhere(code: int) -> None:
    low, high, every = torch.tensor([-1000]), torch.tensor([500]), torch.arange(1, 4)
    found = fit(torch.where(every <= code, -1000, 501)[None], low, high, every, 42)
    integers = torch.arange(-1000, 501)[None]
    assert set(codes_of(found, integers, 42, 0, 3)[0].tolist()) == {code}
    assert found.exact.all()
