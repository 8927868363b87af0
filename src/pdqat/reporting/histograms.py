"""Histograms of what each layer rounds, weights and activations, beside the levels that it rounds to."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pdqat.layers.distances import precise
from pdqat.layers.histograms import Histogram, histogram, quantizers_of, weight_histogram
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.modes import evaluating
from pdqat.precision import BitPlan
from pdqat.reporting.subject import Subject

SAMPLES = 32
"""Whose activations are looked at."""


@dataclass(frozen=True)
class LayerHistograms:
    """Of one layer under one plan."""

    view: str
    layer: str
    weights: Histogram
    activations: Histogram | None
    """Of what the layer reads; None if that is not rounded."""


@torch.no_grad()
def histograms_of(subject: Subject) -> list[LayerHistograms]:
    """Of every layer that a plan rounds."""
    net, inputs = subject.problem.net, subject.example(SAMPLES)
    made = []
    for view, plan in subject.plans.items():
        layers = {name: layer for name, layer in net.layers.items() if name in plan.low_layers}
        with evaluating(net):
            read = _read(layers, partial(_computed, subject, plan, inputs))
            for name, layer in layers.items():
                activations = _of_activations(layer, plan, read[name]) if name in read else None
                made.append(LayerHistograms(view, name, weight_histogram(layer, plan), activations))
    return made


def _computed(subject: Subject, plan: BitPlan, inputs: Any) -> None:
    with subject.problem.net.under(plan):
        subject.problem.net.call(inputs)


def _read(layers: Mapping[str, PrecisionLayer], compute: Any) -> dict[str, Tensor]:
    """What layers read, before they round it; of the first call where there are several."""
    read: dict[str, Tensor] = {}

    def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(module, PrecisionLayer):
            read.setdefault(module.name, args[0].detach().clone())

    hooks = [layer.register_forward_pre_hook(keep) for layer in layers.values()]
    try:
        compute()
    finally:
        for hook in hooks:
            hook.remove()
    return read


def _of_activations(layer: PrecisionLayer, plan: BitPlan, read: Tensor) -> Histogram | None:
    bits = plan[layer.name].activation
    return (
        None
        if bits is None
        else histogram(precise(read), quantizers_of(layer, plan).activation.codes(precise(read), bits))
    )
