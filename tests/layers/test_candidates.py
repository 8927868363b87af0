"""Precisions that are tried beside a layer's own, without training for them."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from networks_as_trained import LAYERS, Signals, as_trained, signals, state_of
from pdqat import FULL, BitPlan, Lagrangian, LayerConstraint, Network, Precision, prepare
from pdqat.layers import Distance
from pdqat.layers.layer_quantizers import Candidates, LayerQuantizers
from pdqat.layers.recorder import Recorder, Request, candidate_name
from pdqat.layers.transfer import with_plan
from pdqat.quantizers import SCHEMES

X, Y = signals()
TWO, EIGHT = Precision(2, 2), Precision(8, 8)
every_scheme = pytest.mark.parametrize("quantizer", SCHEMES)
every_distance = pytest.mark.parametrize("distance", list(Distance))


def trained_net(quantizer: str, bits: str = "2") -> Network:
    torch.manual_seed(0)
    return as_trained(prepare(Signals(), X, bits, quantizer=quantizer))


def watching(distance: Distance, candidates: Candidates) -> Recorder:
    names = [candidate_name(layer, precision) for layer in LAYERS for precision in candidates.precisions]
    return Recorder([Request(frozenset(names), distance)], candidates=candidates)


def tried(net: Network, distance: Distance, candidates: Candidates, x: Tensor = X) -> dict[str, dict[Precision, float]]:
    """The distance of every layer at every candidate, on one batch."""
    recorder = watching(distance, candidates)
    (plan,) = net.plans
    with torch.no_grad(), net.under(plan, recorder=recorder):
        net(x)
    return {
        layer: {
            precision: recorder.distance(distance, candidate_name(layer, precision)).mean().item()
            for precision in candidates.precisions
        }
        for layer in LAYERS
    }


def inputs_of(net: Network, x: Tensor = X) -> dict[str, Tensor]:
    """What each layer reads under the plan."""
    read: dict[str, Tensor] = {}
    hooks = [
        layer.register_forward_pre_hook(lambda _, args, name=name: read.update({name: args[0].detach()}))
        for name, layer in net.layers.items()
    ]
    (plan,) = net.plans
    with torch.no_grad(), net.under(plan):
        net(x)
    for hook in hooks:
        hook.remove()
    return read


def relative(full: Tensor, low: Tensor, channel_dim: int) -> float:
    dims = [dim for dim in range(full.dim()) if dim != channel_dim % full.dim()]
    return (((full - low) ** 2).mean(dims) / (full.var(dims, correction=0) + 1e-5)).mean().item()


@torch.no_grad()
def by_hand(net: Network, name: str, quantizers: LayerQuantizers, precision: Precision, given: Tensor) -> float:
    layer = net.layers[name]
    assert precision.weight is not None
    assert precision.activation is not None
    low_input = quantizers.activation.quantize(given, precision.activation)
    low = layer.operate(low_input, quantizers.weight.quantize(layer.weight, precision.weight), layer.bias)
    full = layer.operate(quantizers.activation.full(given), layer.full_weight(), layer.bias)
    return relative(full, low, layer.channel_dim)


@every_scheme
@every_distance
def test_eight_bits_are_far_closer_than_two(quantizer: str, distance: Distance) -> None:
    """But for what remains of conv0's distance, where conv1 reads it: the rounding of conv1's input to its own bits."""
    net = trained_net(quantizer).eval()
    distances = tried(net, distance, Candidates([TWO, Precision(4, 4), EIGHT], SCHEMES[quantizer]))
    for layer in LAYERS:
        two, four, eight = distances[layer].values()
        assert two > four > eight
        if not (distance.at_reader and layer == "conv0"):
            assert eight < two / (5 if distance is Distance.ABSOLUTE else 25)


@every_scheme
@every_distance
def test_at_its_own_weight_bits_it_is_the_distance_of_the_layer_constraint(quantizer: str, distance: Distance) -> None:
    """With activations left alone both compare the trained weight quantiser with full precision on one input."""
    net = trained_net(quantizer, "w2").eval()
    own = Precision(2, None)
    distances = tried(net, distance, Candidates([own, Precision(8, None)], SCHEMES[quantizer]))
    lagrangian = Lagrangian(net, F.cross_entropy, [LayerConstraint(distance)]).eval()
    expected = lagrangian.duals.named(lagrangian.terms(X, Y).distances)
    assert {layer: distances[layer][own] for layer in LAYERS} == {
        layer: pytest.approx(expected[f"w2/layer/{layer}"].item(), rel=1e-5) for layer in LAYERS
    }


@every_scheme
def test_its_own_precision_is_tried_with_the_trained_quantisers(quantizer: str) -> None:
    net = trained_net(quantizer).eval()
    distances = tried(net, Distance.RELATIVE, Candidates([TWO], SCHEMES[quantizer]))
    for name, given in inputs_of(net).items():
        view = net.layers[name].views["2-bit"]
        assert isinstance(view, LayerQuantizers)
        assert distances[name][TWO] == pytest.approx(by_hand(net, name, view, TWO, given), rel=1e-5)


@every_scheme
def test_other_precisions_are_calibrated_on_the_first_input_and_keep_that(quantizer: str) -> None:
    net = trained_net(quantizer).eval()
    candidates = Candidates([EIGHT], SCHEMES[quantizer])
    first, second = inputs_of(net), inputs_of(net, 3 * X)
    for x, read in ((X, first), (3 * X, second)):
        distances = tried(net, Distance.RELATIVE, candidates, x)
        for name, given in read.items():
            fresh = LayerQuantizers(SCHEMES[quantizer])
            fresh.activation.calibrate(first[name], 8)
            fresh.weight.calibrate(net.layers[name].weight.detach(), 8)
            assert distances[name][EIGHT] == pytest.approx(by_hand(net, name, fresh, EIGHT, given), rel=1e-4)


@every_scheme
@pytest.mark.parametrize("training", [True, False])
def test_trying_moves_nothing(quantizer: str, training: bool) -> None:
    """Neither outputs nor the state: quantisers and norms see one plain forward."""
    plain, net = (trained_net(quantizer).train(training) for _ in range(2))
    recorder = watching(Distance.SQUARED, Candidates([TWO, EIGHT], SCHEMES[quantizer]))
    with plain.under("2-bit"):
        expected = plain(X)
    with net.under("2-bit", recorder=recorder):
        assert torch.equal(net(X), expected)
    before, after = state_of(plain), state_of(net)
    assert before.keys() == after.keys()
    assert [key for key in before if not torch.equal(before[key], after[key])] == []


@every_distance
def test_full_precision_is_no_distance_away_unless_the_next_layer_rounds(distance: Distance) -> None:
    """Only conv1 rounds what it reads: it is behind a norm and a ReLU, others behind sums, means or nothing low."""
    net = trained_net("lsq").eval()
    distances = tried(net, distance, Candidates([FULL], SCHEMES["lsq"]))
    assert {layer for layer in LAYERS if distances[layer][FULL] > 0} == ({"conv0"} if distance.at_reader else set())


@every_scheme
@pytest.mark.parametrize("distance", [Distance.SQUARED, Distance.ABSOLUTE])
def test_a_candidate_is_as_far_as_the_constraint_under_a_plan_with_this_layer_changed(
    quantizer: str, distance: Distance
) -> None:
    """With the layer's own activations left alone: what reads it keeps its bits, whatever is tried before it."""
    plan = {"conv0": Precision(2, None), "conv1": Precision(4, 1), "conv2": FULL, "hidden": FULL}
    torch.manual_seed(0)
    net = as_trained(prepare(Signals(), X, BitPlan("before", plan), quantizer=quantizer)).eval()
    six = Precision(6, None)
    recorder = Recorder(
        [Request(frozenset({candidate_name("conv0", six)}), distance)], candidates=Candidates([six], SCHEMES[quantizer])
    )
    with torch.no_grad(), net.under("before", recorder=recorder):
        net(X)
    found = recorder.distance(distance, candidate_name("conv0", six)).mean()

    changed = with_plan(net, BitPlan("after", {"conv0": six}))
    lagrangian = Lagrangian(changed, F.cross_entropy, [LayerConstraint(distance)]).eval()
    expected = lagrangian.duals.named(lagrangian.terms(X, Y).distances)["after/layer/conv0"]
    torch.testing.assert_close(found, expected[0].detach(), rtol=1e-5, atol=0)
