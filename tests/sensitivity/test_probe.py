"""Distances at precisions that were not trained."""

import pytest
import torch
import torch.nn.functional as F

from pdqat import FULL, Lagrangian, LayerConstraint, Precision, models, prepare
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.quantizers import SCHEMES
from pdqat.sensitivity.probe import candidate_distances
from small_problems import KINDS, drawn, labels, same_state, small, state


@torch.no_grad()
def test_a_candidate_counts_what_its_bits_do_to_input_and_weights() -> None:
    name, precision = "stages.1.0.conv0", Precision(4, 3)
    torch.manual_seed(0)
    images = drawn(20, 1, 8, 8)
    net = prepare(models.build("preresnet-small", 1, 10, (1, 8, 8)), images, 2, quantizer="dorefa")
    problem = Lagrangian(net, F.cross_entropy).eval()
    layer, seen = net.layers[name], []
    hook = layer.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with net.under("2-bit"):
        net(images)
    hook.remove()
    x = seen[0].clamp(0, 1)
    tanh = torch.tanh(layer.weight)
    size, unit = layer.weight.abs().mean(), tanh / tanh.abs().max()
    full = F.conv2d(x, size * unit, stride=2, padding=1)
    low_weight = size * (2 * torch.round(15 * (0.5 + unit / 2)) / 15 - 1)
    low = F.conv2d(torch.round(x * 7) / 7, low_weight, stride=2, padding=1)
    over = (0, 2, 3)
    expected = ((full - low).square().mean(over) / (full.var(over, correction=0) + 1e-5)).mean()
    distances = candidate_distances(problem, [(images, labels(20))], [precision, FULL])[name]
    assert distances[precision] == pytest.approx(float(expected), rel=1e-3)
    assert distances[FULL] == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("distance", ["relative", "squared", "absolute"])
def test_more_bits_are_nearer(kind: str, distance: str) -> None:
    made = small(kind, constraints=[LayerConstraint(distance)])
    distances = candidate_distances(made.problem, list(made.batches), [Precision(bits, bits) for bits in (1, 2, 4, 8)])
    assert len(distances) == 3
    for by_precision in distances.values():
        values = list(by_precision.values())
        assert values[1] > values[2] > values[3] > 0  # 1 bit may beat 2 where the next layer clips


@pytest.mark.parametrize("quantizer", SCHEMES)
def test_every_quantiser_is_tried_at_bits_that_it_was_not_prepared_for(quantizer: str) -> None:
    made = small(quantizer=quantizer, gradient="straight-through")
    before = state(made.problem)
    distances = candidate_distances(made.problem, list(made.batches), [Precision(bits, bits) for bits in (2, 4, 8)])
    for by_precision in distances.values():
        values = list(by_precision.values())
        assert values[0] > values[1] > values[2] > 0
    assert same_state(state(made.problem), before), "the steps of what was tried are nobody's"


@pytest.mark.parametrize("quantizer", ["uniform", "uniform-channel", "lsq"])
@torch.no_grad()
def test_a_candidate_is_calibrated_on_what_the_layer_reads_under_the_plan(quantizer: str) -> None:
    made = small(quantizer=quantizer, gradient="straight-through")
    net, (inputs, target), precision = made.problem.net, made.first, Precision(4, 4)
    layer, seen = net.layers["6"], []
    hook = layer.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with net.under("2-bit"):
        net(inputs)
    hook.remove()
    quantizers = LayerQuantizers(SCHEMES[quantizer])
    quantizers.activation.calibrate(seen[0], 4)
    quantizers.weight.calibrate(layer.weight, 4)
    full = F.linear(seen[0], layer.weight, layer.bias)
    low_input, low_weight = quantizers.activation.quantize(seen[0], 4), quantizers.weight.quantize(layer.weight, 4)
    low = F.linear(low_input, low_weight, layer.bias)
    expected = ((full - low).square().mean(0) / (full.var(0, correction=0) + 1e-5)).mean()
    distances = candidate_distances(made.problem, [(inputs, target)], [precision])
    assert distances["6"][precision] == pytest.approx(float(expected), rel=1e-3)
