"""What budgets count, worked out by hand."""

import pytest
import torch
from torch import Tensor, nn

from networks_as_trained import Signals, signals, state_of
from pdqat import models, prepare
from pdqat.layers.sizes import LayerSize, layer_sizes
from small_problems import drawn

X, _ = signals()
SIZES = {
    "conv0": LayerSize(6 * 6 * 3, 6 * 6 * 3 * 12),
    "conv1": LayerSize(6 * 6 * 3, 6 * 6 * 3 * 12),
    "conv2": LayerSize(6 * 4, 6 * 4 * 12),
    "hidden": LayerSize(4 * 8, 4 * 8),
}


def test_parameters_and_operations_of_one_sample() -> None:
    assert layer_sizes(prepare(Signals(), X)) == SIZES
    assert layer_sizes(prepare(Signals(), X[:1])) == SIZES


def test_the_network_stays_as_it_was() -> None:
    net = prepare(Signals(), X, quantizer="uniform")
    net.model.get_submodule("norm0").eval()
    modes, before = {name: module.training for name, module in net.named_modules()}, state_of(net)
    layer_sizes(net)
    assert {name: module.training for name, module in net.named_modules()} == modes
    assert all(torch.equal(value, net.state_dict()[key]) for key, value in before.items())
    assert not any(layer._forward_hooks for layer in net.layers.values())


def test_after_a_change_of_type() -> None:
    assert layer_sizes(prepare(Signals(), X).double()) == SIZES


class Several(nn.Module):
    """Two inputs, and a layer that is called for each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(4, 4), nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        h = self.middle(self.first(x)) + self.middle(self.first(other))
        y: Tensor = self.last(h)
        return y


@pytest.mark.parametrize("form", ["tuple", "mapping"])
def test_a_layer_counts_with_all_its_calls(form: str) -> None:
    x, other = torch.rand(6, 3, 4), torch.rand(6, 3, 4)
    net = prepare(Several(), (x, other) if form == "tuple" else {"other": other, "x": x})
    assert layer_sizes(net) == {"middle": LayerSize(20, 2 * 3 * 20)}


def test_hooks_go_with_an_error_too() -> None:
    net = prepare(Signals(), X)
    net.model.get_submodule("hidden").register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="no"):
        layer_sizes(net)
    assert not any(layer._forward_hooks for layer in net.layers.values())


def fail(*_: object) -> None:
    raise RuntimeError("no")


def test_of_a_convolution() -> None:
    net = prepare(models.build("preresnet-small", 1, 10, (1, 8, 8)), drawn(3, 1, 8, 8), 2)
    size = layer_sizes(net)["stages.1.0.conv0"]
    assert size.parameters == net.layers["stages.1.0.conv0"].weight.numel() == 8 * 16 * 9
    assert size.operations == 8 * 16 * 9 * 4 * 4  # digits of 8 x 8, halved once


def test_of_a_layer_for_every_moment_however_the_model_folds_them() -> None:
    class Folding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.plain, self.folded, self.head = (nn.Linear(4, 4) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            y = self.plain(self.embed(x))
            y = self.folded(y.flatten(0, 1)).unflatten(0, x.shape[:2])
            z: Tensor = self.head(torch.relu(y).mean(1))
            return z

    sizes = layer_sizes(prepare(Folding(), drawn(5, 7, 4), 2))
    assert sizes == {"plain": LayerSize(16, 7 * 16), "folded": LayerSize(16, 7 * 16)}
