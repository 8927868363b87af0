"""Signal-to-noise of every layer: how loud what rounding its weights adds to its output is, in decibels.

    SNR_l = -10 log10 mean_c ( E (a_c - a^q_c)^2 / Var a_c ),    a = layer(z, full(w)),    a^q = layer(z, quantize(w))

Both sides read the same rounded input z, as in a layer constraint, and c are the channels of the output. A layer whose
value on validation data is far below that on training data has adapted its rounding to the training samples.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from pdqat.batches import samples_in
from pdqat.errors import InputError
from pdqat.layers import Distance, Network
from pdqat.layers.modes import evaluating
from pdqat.layers.recorder import Recorder, Request
from pdqat.precision import BitPlan
from pdqat.reporting.subject import Pair, Subject

SAMPLES = 256
LEAST = 1e-12
"""Noise below this part of the signal is none."""


@dataclass(frozen=True)
class LayerNoise:
    """Of one layer under one plan, in decibels."""

    view: str
    layer: str
    validation: float
    training: float | None


def noise_of(subject: Subject) -> list[LayerNoise]:
    """Of every layer whose weights are rounded."""
    net, rows = subject.problem.net, []
    judges = subject.held_out(SAMPLES)
    seen = subject.seen(SAMPLES) if len(subject.training) else None
    for view, plan in subject.plans.items():
        layers = [name for name in plan.low_layers if plan[name].weight is not None]
        held_out = signal_to_noise(net, plan, layers, judges)
        trained = {} if seen is None else signal_to_noise(net, plan, layers, seen)
        rows += [LayerNoise(view, layer, held_out[layer], trained.get(layer)) for layer in layers]
    if not rows:
        raise InputError("no layer's weights are rounded")
    return rows


@torch.no_grad()
def signal_to_noise(net: Network, plan: BitPlan, layers: Sequence[str], batches: Iterable[Pair]) -> dict[str, float]:
    """In decibels, over all samples."""
    noise, samples = dict.fromkeys(layers, 0.0), 0
    with evaluating(net):
        for inputs, _ in batches:
            recorder = Recorder([Request(frozenset(layers), Distance.RELATIVE)])
            with net.under(plan, recorder=recorder):
                net.call(inputs)
            size = samples_in(inputs)
            samples += size
            for layer in layers:
                noise[layer] += float(recorder.distance(Distance.RELATIVE, layer).mean()) * size
    return {layer: -10 * math.log10(max(total / samples, LEAST)) for layer, total in noise.items()}
