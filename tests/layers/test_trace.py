import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import BitPlan, Lagrangian, LayerConstraint, Network, Precision, prepare
from pdqat.models import build


def links(net: Network) -> dict[str, tuple[str | None, set[str]]]:
    return {name: (layer.norm_after, set(layer.readers)) for name, layer in net.layers.items()}


def prepared(name: str) -> Network:
    return prepare(build(name, 1, 10, (3, 8, 8)), torch.rand(2, 3, 8, 8))


def test_links_of_preresnet20() -> None:
    """What a convolution makes enters the norm behind it; a block's second one the next block's, through the sum.

    The head reads means, which no layer makes.
    """
    blocks = [f"stages.{stage}.{block}" for stage in range(3) for block in range(3)]
    expected: dict[str, tuple[str | None, set[str]]] = {}
    for here, after in itertools.zip_longest(blocks, blocks[1:]):
        projects = {f"{after}.shortcut.conv"} if after in ("stages.1.0", "stages.2.0") else set()
        if here in ("stages.1.0", "stages.2.0"):
            expected[f"{here}.shortcut.conv"] = f"{here}.shortcut.norm", set()
        expected[f"{here}.conv0"] = f"{here}.norm1", {f"{here}.conv1"}
        behind = f"{after}.norm0" if after else "norm"
        expected[f"{here}.conv1"] = behind, {f"{after}.conv0", *projects} if after else set()
    net = prepared("preresnet20")
    assert links(net) == expected
    assert list(net.layers) == list(expected)
    assert net.model.get_submodule("stem").norm_after == "stages.0.0.norm0"


def test_links_of_resnet20() -> None:
    """A block's sum comes after its norms, so only the first convolution of a block has a single reader."""
    expected: dict[str, tuple[str | None, set[str]]] = {}
    for here in [f"stages.{stage}.{block}" for stage in range(3) for block in range(3)]:
        if here in ("stages.1.0", "stages.2.0"):
            expected[f"{here}.shortcut.conv"] = f"{here}.shortcut.norm", set()
        expected[f"{here}.conv0"] = f"{here}.norm0", {f"{here}.conv1"}
        expected[f"{here}.conv1"] = f"{here}.norm1", set()
    net = prepared("resnet20")
    assert links(net) == expected
    assert net.model.get_submodule("stem").norm_after == "norm"


@pytest.mark.parametrize("name", ["preresnet20", "resnet20"])
def test_only_what_lies_behind_the_last_rounding_has_none_behind_it(name: str) -> None:
    net = prepared(name)
    *others, last = net.layers.values()
    assert {layer.roundings_behind for layer in others} == {frozenset({"2-bit"})}
    assert last.roundings_behind == frozenset()
    assert net.model.get_submodule("head").roundings_behind == frozenset()
    assert net.model.get_submodule("stem").roundings_behind == {"2-bit"}


class Wired(nn.Module):
    """Two layers between two others, wired by a function."""

    def __init__(self, wire: str) -> None:
        super().__init__()
        self.wire = wire
        self.first, self.a, self.b, self.last = (nn.Linear(4, 4) for _ in range(4))
        self.norm, self.other_norm = nn.BatchNorm1d(4), nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        a, b = self.a(h), self.b(h)
        if self.wire == "sum":
            h = self.norm(a + b)
        elif self.wire == "weighted sum":
            h = self.norm(torch.add(b, a, alpha=0.5))
        elif self.wire == "difference":
            h = self.norm(b - a)
        elif self.wire == "function between":
            h = self.norm(a.relu()) + b
        elif self.wire == "two norms":
            h = self.norm(a) + self.other_norm(a) + b
        elif self.wire == "norm used twice":
            h = self.norm(a) + self.norm(b)
        y: Tensor = self.last(h)
        return y


@pytest.mark.parametrize(
    ("wire", "a", "b"),
    [
        ("sum", "norm", "norm"),
        ("weighted sum", None, None),
        ("difference", None, None),
        ("function between", None, None),
        ("two norms", "norm", None),  # the first one counts
        ("norm used twice", "norm", None),  # of its two calls, only the first one is surely behind a
    ],
)
def test_a_norm_follows_a_layer_if_its_output_enters_it_as_it_is(wire: str, a: str | None, b: str | None) -> None:
    net = prepare(Wired(wire), torch.rand(5, 4), quantizer="dorefa")
    assert (net.layers["a"].norm_after, net.layers["b"].norm_after) == (a, b)


@pytest.mark.parametrize("wire", ["sum", "weighted sum", "difference", "function between", "two norms"])
def test_distance_behind_the_norm_is_what_the_other_weights_make_of_it(wire: str) -> None:
    """Only layer a is quantised: compute it by hand with either weight, and follow it to where it is compared."""
    torch.manual_seed(0)
    x = torch.randn(16, 4)
    model = Wired(wire)
    for norm in (model.norm, model.other_norm):
        nn.init.uniform_(norm.weight, 0.5, 2.0)
        nn.init.uniform_(norm.bias, -1.0, 1.0)
    net = prepare(model, x, BitPlan("mixed", {"a": Precision(2, None)}), quantizer="dorefa")
    lagrangian = Lagrangian(net, F.mse_loss, [LayerConstraint("squared")]).eval()
    distances = lagrangian.terms(x, torch.zeros(16, 4)).distances

    h, weight = model.first(x), model.a.weight.detach()
    scale, squashed = weight.abs().mean(), torch.tanh(weight) / torch.tanh(weight).abs().max()
    full, low = (
        F.linear(h, scale * each, model.a.bias)
        for each in (squashed, 2 * torch.round(3 * (0.5 + squashed / 2)) / 3 - 1)
    )
    if wire in ("sum", "two norms"):
        other = model.b(h) if wire == "sum" else 0
        full, low = ((side + other) / (1 + 1e-5) ** 0.5 * model.norm.weight for side in (full, low))
    torch.testing.assert_close(distances, ((full - low) ** 2).mean().view(1))


def test_a_norm_in_an_unusual_place_does_not_stop_prepare() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4))
    net = prepare(model, torch.rand(5, 4))
    assert links(net) == {"2": (None, {"3"})}
    assert net.model.get_submodule("3").norm_after == "4"
