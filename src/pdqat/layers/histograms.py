"""Histograms of values that are rounded, beside the levels that they are rounded to."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pdqat.layers.distances import precise
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.precision import BitPlan
from pdqat.quantizers.base import Grid

BINS = 60
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


def weight_histogram(layer: PrecisionLayer, plan: BitPlan) -> Histogram:
    """Of a layer's weights in full precision, and of what a plan makes of them; the network has to be evaluating."""
    bits = plan[layer.name].weight
    grid = None if not bits else quantizers_of(layer, plan).weight.codes(layer.rows, bits)
    return histogram(precise(layer.full_weight()), grid)


def quantizers_of(layer: PrecisionLayer, plan: BitPlan) -> LayerQuantizers:
    """Of a layer under a plan that quantises it."""
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
