"""What the layer that reads another one's output does to the distance: it clips both sides and rounds the low one."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from networks_as_trained import Signals, as_trained, signals, state_of
from pdqat import BitPlan, ChannelConstraint, InputError, Lagrangian, LayerConstraint, Network, Precision, prepare
from pdqat.layers.clip import Clip
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.transfer import with_plan
from pdqat.quantizers import SCHEMES, Quantizer

every_scheme = pytest.mark.parametrize("quantizer", SCHEMES)
WITHOUT_SCALE = ["dorefa", "dorefa-unscaled", "dorefa-int8", "dorefa-bytes", "normal", "normal-bytes"]
"""For activations of fewer than 8 bits."""


class Read(nn.Module):
    """A layer between two others, with a function in front of what reads it; as many features everywhere."""

    def __init__(self, features: int, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.first, self.layer, self.reader, self.last = (nn.Linear(features, features, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.reader(self.function(self.layer(self.first(x)))))
        return y


def as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def passed_on(x: Tensor, reader: str) -> Network:
    """A network of ones, in which the layer, its weights on the grid, makes what it reads."""
    model = Read(1, as_it_is)
    for weight in model.parameters():
        nn.init.ones_(weight)
    plan = BitPlan("mixed", {"layer": Precision(1, None), "reader": Precision.parse(reader)})
    return prepare(model, x, plan, quantizer="dorefa")


def distance_of(net: Network, x: Tensor, distance: str = "squared", layer: str = "layer") -> Tensor:
    """Under the network's only plan."""
    lagrangian = Lagrangian(net, lambda output, _: output.mean(), [LayerConstraint(distance, 0.0)])
    (plan,) = net.plans
    return lagrangian.duals.named(lagrangian.terms(x, None).distances)[f"{plan}/layer/{layer}"][0]


def quantizer_of(net: Network, layer: str) -> Quantizer:
    (plan,) = net.plans
    view = net.layers[layer].views[plan]
    assert isinstance(view, LayerQuantizers)
    return view.activation


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_uniformly_spread_activation_is_a_twelfth_of_a_squared_step_from_itself(bits: int) -> None:
    """Though the weights are the same on both sides: at 1 bit 1/12, a quarter in absolute terms."""
    x = ((torch.arange(255 * 64) + 0.5) / (255 * 64)).view(-1, 1)
    net, step = passed_on(x, f"a{bits}"), 1 / (2**bits - 1)
    assert distance_of(net, x).item() == pytest.approx(step**2 / 12, rel=1e-3)
    assert distance_of(net, x, "absolute").item() == pytest.approx(step / 4, rel=1e-3)
    assert distance_of(net, x, "relative") == 0


@pytest.mark.parametrize("reader", ["full", "w1"])
def test_where_nothing_rounds_the_same_weights_are_no_distance_apart(reader: str) -> None:
    x = torch.rand(64, 1)
    assert distance_of(passed_on(x, reader), x) == 0


def test_a_case_by_hand() -> None:
    """The reader has 0, 0, 1, 1 where full precision has 0.1, 0.4, 0.6, 1."""
    x = torch.tensor([[0.1], [0.4], [0.6], [1.3]])
    assert distance_of(passed_on(x, "a1"), x).item() == pytest.approx((0.01 + 0.16 + 0.16) / 4)
    assert distance_of(passed_on(x, "a1"), x, "absolute").item() == pytest.approx((0.1 + 0.4 + 0.4) / 4)


CLIPS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "none": (as_it_is, as_it_is),
    "ReLU": (F.relu, F.relu),
    "ReLU in place": (nn.ReLU(inplace=True), F.relu),
    "ReLU6": (F.relu6, F.relu6),
    "hard tanh": (F.hardtanh, F.hardtanh),
    "clamp": (lambda t: t.clamp(0.1, 0.4), lambda t: t.clamp(0.1, 0.4)),
    "clamp from below": (lambda t: t.clamp(min=-0.1), lambda t: t.clamp(min=-0.1)),
    "clamp from above": (lambda t: t.clamp_max(0.2), lambda t: t.clamp_max(0.2)),
    "two clips": (lambda t: t.clamp(min=-0.2).clamp(-0.5, 0.1), lambda t: t.clamp(-0.2, 0.1)),
    "other order and shape": (lambda t: t.flip(1).view(-1, 2, 2).transpose(1, 2).flatten(1), as_it_is),
    "maximum pooling": (lambda t: F.pad(F.max_pool1d(t[:, None], 2)[:, 0], (0, 2)).relu(), F.relu),
}


@pytest.mark.parametrize("clip", CLIPS)
@every_scheme
def test_the_low_side_is_rounded_by_the_reader_behind_the_clips_in_between(quantizer: str, clip: str) -> None:
    """Signed or not, whatever scale or step the reader has after this very batch."""
    torch.manual_seed(0)
    x = torch.randn(32, 4)
    function, by_hand = CLIPS[clip]
    model = Read(4, function)
    net = prepare(
        model, x, BitPlan("mixed", {"layer": Precision(2, None), "reader": Precision(None, 3)}), quantizer=quantizer
    )
    found = distance_of(net, 2 * x)  # in training mode: running scales move
    layer = net.layers["layer"]
    z, weight = model.first(2 * x), layer.low_weight(net.plans["mixed"])
    reads = quantizer_of(net, "reader")
    full, low = reads.full(by_hand(F.linear(z, layer.full_weight()))), reads.quantize(by_hand(F.linear(z, weight)), 3)
    torch.testing.assert_close(found, (full - low).square().mean())
    assert not torch.equal(low, reads.full(by_hand(F.linear(z, weight))))


@pytest.mark.parametrize(
    "function",
    [F.gelu, torch.sigmoid, lambda t: 2 * t, lambda t: t - t.mean(1, keepdim=True), lambda t: F.avg_pool1d(t, 3, 1, 1)],
    ids=["GELU", "sigmoid", "scaled", "centred", "average pooling"],
)
def test_where_a_function_makes_new_values_the_layer_is_compared_as_it_is(function: Callable[[Tensor], Tensor]) -> None:
    """The reader rounds what the function makes, which says nothing about the values before it."""
    torch.manual_seed(0)
    x = torch.randn(32, 4)
    model = Read(4, function)
    net = prepare(model, x, quantizer="dorefa-unscaled")
    layer = net.layers["layer"]
    z = quantizer_of(net, "layer").quantize(model.first(x), 2)
    full, low = F.linear(z, layer.full_weight()), F.linear(z, layer.low_weight(net.plans["2-bit"]))
    torch.testing.assert_close(distance_of(net, x), (full - low).square().mean())


class ReadTwice(nn.Module):
    """A layer that two others read."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer, self.a, self.b, self.last = (nn.Linear(4, 4) for _ in range(5))

    def forward(self, x: Tensor) -> Tensor:
        h = self.layer(self.first(x))
        y: Tensor = self.last(self.a(h) + self.b(h.relu()))
        return y


@pytest.mark.parametrize(
    ("a", "b", "coarsest"), [("a1", "a4", "a"), ("a4", "a1", "b"), ("w1", "a4", "b"), ("a2", "a2", "a")]
)
def test_of_several_readers_the_one_with_the_fewest_bits_counts(a: str, b: str, coarsest: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 4)
    precisions = {"layer": "w2", "a": a, "b": b}
    plan = BitPlan("mixed", {name: Precision.parse(precision) for name, precision in precisions.items()})
    net = prepare(ReadTwice(), x, plan, quantizer="uniform")
    layer, reads, bits = net.layers["layer"], quantizer_of(net, coarsest), plan[coarsest].activation
    assert bits is not None
    given_to = net.model.first(x)  # type: ignore[operator]
    full, low = (F.linear(given_to, weight, layer.bias) for weight in (layer.full_weight(), layer.low_weight(plan)))
    if coarsest == "b":
        full, low = full.relu(), low.relu()
    net.eval()
    torch.testing.assert_close(distance_of(net, x), (full - reads.quantize(low, bits)).square().mean())


@every_scheme
def test_the_gradient_goes_through_the_full_side_only(quantizer: str) -> None:
    """The reader's step or scale and everything before the layer are constants."""
    torch.manual_seed(0)
    x = torch.randn(32, 4, dtype=torch.float64)
    model = Read(4, F.relu).double()
    net = prepare(
        model, x, BitPlan("mixed", {"layer": Precision(2, None), "reader": Precision(2, 2)}), quantizer=quantizer
    ).eval()
    layer, parameters = net.layers["layer"], dict(net.model.named_parameters())
    found = torch.autograd.grad(distance_of(net, x), list(parameters.values()), materialize_grads=True)

    reads, z = quantizer_of(net, "reader"), model.first(x).detach()
    low = reads.quantize(F.linear(z, layer.low_weight(net.plans["mixed"])).relu(), 2).detach()
    expected = (reads.full(F.linear(z, layer.full_weight()).relu()) - low).square().mean()
    (of_weight,) = torch.autograd.grad(expected, [layer.weight])
    assert of_weight.any()
    for name, gradient in zip(parameters, found, strict=True):
        torch.testing.assert_close(gradient, of_weight if name == "layer.weight" else torch.zeros_like(gradient))


@every_scheme
@pytest.mark.parametrize("training", [True, False])
def test_comparing_moves_no_state(quantizer: str, training: bool) -> None:
    x, y = signals()
    torch.manual_seed(0)
    net = as_trained(prepare(Signals(), x, quantizer=quantizer)).train(training)
    plain = copy.deepcopy(net)
    Lagrangian(net, F.cross_entropy, [LayerConstraint("squared"), ChannelConstraint("absolute")]).terms(x, y)
    plain(x)
    with plain.under("2-bit"):
        plain(x)
    torch.testing.assert_close(state_of(net), state_of(plain), rtol=0, atol=0)


@every_scheme
def test_a_copy_and_a_reloaded_network_have_readers_of_their_own(quantizer: str) -> None:
    x, _ = signals()
    torch.manual_seed(0)
    net = as_trained(prepare(Signals(), x, quantizer=quantizer)).eval()
    expected = distance_of(net, x, layer="conv0")
    copied, loaded = copy.deepcopy(net), prepare(Signals(), x, quantizer=quantizer).eval()
    loaded.load_state_dict(net.state_dict())
    with torch.no_grad():
        for tensor in net.layers["conv1"].views.state_dict().values():
            tensor.mul_(2) if tensor.is_floating_point() else tensor.logical_not_()
    for other in (copied, loaded):
        assert torch.equal(distance_of(other, x, layer="conv0"), expected)
    if quantizer not in WITHOUT_SCALE:
        assert not torch.equal(distance_of(net, x, layer="conv0"), expected)


@every_scheme
def test_under_another_plan_the_reader_rounds_with_its_new_bits(quantizer: str) -> None:
    """What conv0 makes is the same; the finer conv1 reads it, the nearer it is."""
    x, _ = signals()
    torch.manual_seed(0)
    net = prepare(
        Signals(), x, BitPlan("low", {"conv0": Precision(8, 8), "conv1": Precision(8, 1)}), quantizer=quantizer
    ).eval()
    distances = [
        distance_of(with_plan(net, BitPlan("new", {"conv1": Precision(8, bits)})), x, layer="conv0")
        for bits in (1, 2, 4, None)
    ]
    assert sorted(distances, reverse=True) == distances
    assert distances[0] > 10 * distances[-1]


class Recurrent(nn.Module):
    """A layer that reads its own output of the step before, as many steps as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.steps = 3

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for _ in range(self.steps):
            h = self.layer(h).clamp(0, 1)
        y: Tensor = self.last(h)
        return y


def test_a_layer_may_read_itself() -> None:
    """Two of the three outputs are read by a layer that rounds, each before the next is made."""
    torch.manual_seed(0)
    x = torch.rand(16, 4)
    net = prepare(Recurrent(), x, quantizer="dorefa")
    layer, by_step = net.layers["layer"], []
    low = layer.low_weight(net.plans["2-bit"])
    z = quantizer_of(net, "layer").quantize(net.model.first(x), 2)  # type: ignore[operator]
    for _ in range(2):
        full = F.linear(z, layer.full_weight(), layer.bias).clamp(0, 1)
        z = quantizer_of(net, "layer").quantize(F.linear(z, low, layer.bias), 2)
        by_step.append((full - z).square().mean())
    torch.testing.assert_close(distance_of(net, x), torch.stack(by_step).mean())


def test_a_reader_that_is_not_computed_is_named() -> None:
    class Sometimes(Read):
        reads = True

        def forward(self, x: Tensor) -> Tensor:
            h = self.layer(self.first(x))
            y: Tensor = self.last(self.reader(h) if self.reads else h)
            return y

    x = torch.rand(8, 4)
    model = Sometimes(4, as_it_is)
    net = prepare(model, x, BitPlan("mixed", {"layer": Precision(2, 2), "reader": Precision(None, 2)}))
    model.reads = False
    with pytest.raises(InputError, match=r"^reader, which reads layer, was not computed in this forward"):
        distance_of(net, x)


def test_what_changes_an_output_in_place_does_not_change_what_is_compared() -> None:
    class Scaled(Read):
        in_place = False

        def forward(self, x: Tensor) -> Tensor:
            h = self.layer(self.first(x))
            read = h.clone()
            beside = h.mul_(3) if self.in_place else h * 3
            y: Tensor = self.last(self.reader(read) + beside)
            return y

    x, distances = torch.randn(16, 4), []
    for in_place in (False, True):
        torch.manual_seed(0)
        model = Scaled(4, as_it_is)
        net = prepare(model, x, quantizer="dorefa")
        model.in_place = in_place
        with torch.no_grad():
            distances.append(distance_of(net, x))
    assert torch.equal(*distances)


limits = st.floats(-3, 3) | st.sampled_from([-torch.inf, torch.inf])


@given(st.lists(st.tuples(limits, limits).map(sorted), max_size=4), st.lists(st.floats(-5, 5), min_size=1))
def test_clips_one_after_the_other_are_one(limits: list[list[float]], values: list[float]) -> None:
    tensor = torch.tensor(values, dtype=torch.float64)
    expected, whole = tensor, Clip()
    for low, high in limits:
        expected, whole = expected.clamp(low, high), Clip(low, high).after(whole)
    assert torch.equal(whole(tensor), expected)
