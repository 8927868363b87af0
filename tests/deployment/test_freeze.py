"""The integer reference against the simulated model: every code of the one explained by the other."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from deployed_networks import (
    Own,
    deployable,
    frozen,
    images,
    residual,
    simulated,
    small_preresnet,
    standard,
    trained_like,
    verified_reference,
)
from pdqat import prepare
from pdqat.deployment.deployable import Deployable
from pdqat.errors import InputError

MIXED = {"stages.0.0.conv0": "full", "stages.1.0.conv0": "4", "stages.1.0.shortcut.conv": "1", "head": "8"}


@pytest.mark.parametrize("bits", ["1", "2", "3", "4", "8", "w2a4"])
@pytest.mark.parametrize("architecture", [residual, standard])
def test_networks_of_any_bits_are_the_simulated_ones(architecture: Callable[[str], Deployable], bits: str) -> None:
    model = architecture(bits)
    result = verified_reference(model, images(40))
    assert result.passes
    assert result.codes.simulated.count > 10_000
    if bits in ("1", "2"):
        assert all(rounding.exact == rounding.channels for rounding in model.frozen.folded)


def test_without_integer_sums_they_stay_real() -> None:
    torch.manual_seed(0)
    net = trained_like(prepare(small_preresnet(), images(), "2", quantizer="dorefa"), 3)
    assert verified_reference(deployable(net), images(40)).passes


def test_a_mixed_plan_with_layers_in_full_precision() -> None:
    torch.manual_seed(0)
    net = prepare(small_preresnet(), images(), "2", layers=MIXED, quantizer="dorefa-int8", integer_sums=True)
    model = deployable(trained_like(net, 4))
    assert verified_reference(model, images(40)).passes
    assert set(model.frozen.real_layers) == {"stem", "stages.0.0.conv0"}


@settings(max_examples=12)
@given(
    st.sampled_from([4, 8]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 3]),
    st.integers(1, 8),
    st.sampled_from(["dorefa-int8", "uniform", "uniform-channel"]),
    st.integers(0, 99),
)
def test_own_networks_of_any_bits_and_shapes(
    width: int, groups: int, kernel: int, bits: int, quantizer: str, seed: int
) -> None:
    torch.manual_seed(seed)
    model = deployable(trained_like(prepare(Own(width, groups, kernel), images(), bits, quantizer=quantizer), seed))
    assert verified_reference(model, images(24)).passes
    assert {"conv0", "hidden0"} <= {rounding.name for rounding in model.frozen.folded}


def test_eight_bit_weights_that_need_nine_are_named() -> None:
    net = prepare(small_preresnet(), images(), "8", quantizer="dorefa")
    with pytest.raises(InputError, match=r"layer stages.0.0.conv0 can't be exported: its 8-bit weights reach 255"):
        frozen(net)


def test_control_flow_that_can_not_be_followed_is_said() -> None:
    class Branches(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if x.sum() > 0 else super().forward(-x)  # type: ignore[no-any-return, no-untyped-call]

    net = prepare(Branches(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)), torch.rand(2, 4))
    with pytest.raises(InputError, match="can't follow the model's graph"):
        frozen(net)


def test_other_paddings_are_named() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), nn.Conv2d(4, 4, 3))
    with pytest.raises(InputError, match="layer 1 can't be exported: its padding mode is 'reflect', not zeros"):
        frozen(prepare(model, images()))


def refusal(model: nn.Module, x: Tensor, bits: str = "2", quantizer: str = "dorefa-int8") -> str:
    with pytest.raises(InputError) as found:
        frozen(prepare(model, x, bits, quantizer=quantizer))
    return str(found.value)


class Chain(nn.Module):
    """Two layers in low precision with something between."""

    def __init__(self, between: nn.Module) -> None:
        super().__init__()
        self.first, self.conv, self.relu = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), between
        self.conv1, self.last = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.conv1(self.relu(self.conv(torch.relu(self.first(x))))))
        return y


def test_modules_are_known_by_kind_not_by_name() -> None:
    torch.manual_seed(0)
    net = trained_like(prepare(Chain(nn.LeakyReLU()), images(), 2, quantizer="uniform"), 0)
    torch.testing.assert_close(
        frozen(net).module(images(32)).detach(), simulated(net, images(32)), rtol=1e-4, atol=1e-4
    )


def test_what_changes_its_input_in_place_is_followed() -> None:
    class Twice(Chain):
        def forward(self, x: Tensor) -> Tensor:
            x = self.conv(self.first(x))
            y: Tensor = self.last(self.conv1(self.relu(x)) + x)
            return y

    torch.manual_seed(0)
    model = deployable(trained_like(prepare(Twice(nn.ReLU(inplace=True)), images(), 2, quantizer="uniform"), 0))
    assert verified_reference(model, images(16)).passes


def test_an_input_that_may_be_left_out_is_read_where_it_is_given() -> None:
    class Two(Chain):
        def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor:
            z: Tensor = self.last(self.conv(self.first(x)) + y) if y is not None else super().forward(x)
            return z

    both, one = ((images(), torch.rand(8, 4, 8, 8)), images())
    for inputs, read in ((both, ["x", "y"]), (one, ["x"])):
        module = frozen(prepare(Two(nn.ReLU()), inputs, 2)).module
        assert [node.target for node in module.graph.nodes if node.op == "placeholder"] == read


def test_signs_of_real_numbers_are_named() -> None:
    model = nn.Sequential()
    model.add_module("first", nn.Conv2d(3, 4, 1))
    model.add_module("conv", nn.Conv2d(4, 4, 1))
    model.add_module("last", nn.Conv2d(4, 4, 1))
    assert "layer conv can't be exported: it reads signs (1 bit) of real numbers" in refusal(
        model, images(), "1", "uniform"
    )
