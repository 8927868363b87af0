"""Histograms of what each layer rounds, weights and activations, beside the levels that it rounds to."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pdqat.layers.distances import precise
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.modes import evaluating
from pdqat.precision import BitPlan
from pdqat.quantizers.base import Grid
from pdqat.reporting.subject import Subject

BINS = 60
SAMPLES = 32
"""Whose activations are looked at."""
TAIL = 0.001
"""The part of the values at either end that is counted in the last bins, so that a few far ones don't squeeze them."""
VALUES = 100_000
"""So many values, evenly spaced in the tensor, tell where the tails begin."""


@dataclass(frozen=True)
class Histogram:
    """Counts in even bins between two ends, and the levels with what was rounded to each."""

    low: float
    high: float
    counts: list[int]
    levels: list[float]
    """Empty in full precision."""
    at_levels: list[int]
    in_steps: bool
    """Whether values are counted in steps of their channel, since every channel has a step of its own."""
    beyond: float
    """The part of the values that lie more than half a step outside the levels, and so are clipped."""


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
                made.append(LayerHistograms(view, name, _of_weights(layer, plan), activations))
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


def _of_weights(layer: PrecisionLayer, plan: BitPlan) -> Histogram:
    bits = plan[layer.name].weight
    grid = None if bits is None else _quantizers(layer, plan).weight.codes(layer.rows, bits)
    return histogram(precise(layer.full_weight()), grid)


def _of_activations(layer: PrecisionLayer, plan: BitPlan, read: Tensor) -> Histogram | None:
    bits = plan[layer.name].activation
    return (
        None
        if bits is None
        else histogram(precise(read), _quantizers(layer, plan).activation.codes(precise(read), bits))
    )


def _quantizers(layer: PrecisionLayer, plan: BitPlan) -> LayerQuantizers:
    view = layer.views[plan.name]
    assert isinstance(view, LayerQuantizers)
    return view


def histogram(values: Tensor, grid: Grid | None) -> Histogram:
    """Of values, and of what a grid makes of them."""
    if grid is None:
        return Histogram(*_counted(values), [], [], False, 0.0)
    codes, at_levels = torch.unique(grid.integers, return_counts=True)
    scale, offset = grid.scale, grid.offset
    in_steps = scale.numel() > 1
    if in_steps:
        values, step, levels = (values - offset) / scale, 1.0, codes.double()
    else:
        step, levels = float(scale), codes.double() * float(scale) + float(offset)
    half = step * _stride(codes) / 2
    low, high = float(levels[0]) - half, float(levels[-1]) + half
    beyond = float(((values < low) | (values > high)).double().mean())
    return Histogram(
        *_counted(values, float(levels[0]), float(levels[-1])), levels.tolist(), at_levels.tolist(), in_steps, beyond
    )


def _stride(codes: Tensor) -> int:
    """Between neighbouring codes: 2 for the odd numbers of DoReFa's weights."""
    return int(codes.diff().min()) if len(codes) > 1 else 1


def _counted(values: Tensor, *include: float) -> tuple[float, float, list[int]]:
    """The ends, which include these numbers, and the counts between them."""
    flat = values.flatten().double()
    some = flat[:: max(1, len(flat) // VALUES)]
    ends = torch.quantile(some, torch.tensor([TAIL, 1 - TAIL], dtype=some.dtype, device=some.device)).tolist()
    low, high = min(ends[0], *include, ends[1]), max(ends[1], *include, ends[0])
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = torch.histc(flat.clamp(low, high), BINS, low, high)
    return low, high, [int(count) for count in counts.tolist()]
