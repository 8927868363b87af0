"""What is logged of an epoch: numbers by name, and weights beside the levels that they are rounded to."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch

from pdqat.layers.histograms import Histogram, weight_histogram
from pdqat.layers.modes import evaluating
from pdqat.runs.entries import scores_in
from pdqat.task import Problem, trains_low
from pdqat.trackers.tracker import Bars

ONCE = ("objective", "loss", "lr", "flip_rate")
PER_BOUND = ("slack", "multiplier", "distance", "tolerance")


def numbers_in(entry: Mapping[str, Any]) -> dict[str, float]:
    """Of an epoch's entry of the metrics; of a bound per channel, one for each.

    >>> numbers_in({"loss": 0.5, "metric": "accuracy", "accuracy": {"full": 0.75}, "constraints": []})
    {'loss': 0.5, 'accuracy/full': 0.75}
    """
    numbers = {name: float(entry[name]) for name in ONCE if name in entry}
    numbers |= {f"{entry['metric']}/{view}": float(score) for view, score in scores_in(entry).items()}
    for bound in entry["constraints"]:
        for key in PER_BOUND:
            value, name = bound[key], f"{key}/{bound['name']}"
            if isinstance(value, list):
                numbers |= {f"{name}/{channel}": float(part) for channel, part in enumerate(value)}
            else:
                numbers[name] = float(value)
    return numbers


def scores_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """Of the chosen model, by view and part of the data.

    >>> scores_of({"metric": "accuracy", "accuracy": {"full": {"test": 0.5}}})
    {'final/accuracy/full/test': 0.5}
    """
    metric, scores = summary["metric"], scores_in(summary)
    return {f"final/{metric}/{view}/{part}": score for view in scores for part, score in scores[view].items()}


@torch.no_grad()
def histograms_of(problem: Problem) -> dict[str, Bars]:
    """Of every layer whose weights a plan rounds: the weights, and how many are rounded to which level.

    Where every channel has a step of its own, both are counted in steps.
    """
    net = problem.net
    found: dict[str, Bars] = {}
    if not trains_low(problem):
        return found
    with evaluating(net):
        for view, plan in net.plans.items():
            for name, layer in net.layers.items():
                if plan[name].weight:
                    histogram = weight_histogram(layer, plan)
                    found[f"weights/{view}/{name}"] = _weights(histogram)
                    found[f"levels/{view}/{name}"] = _levels(histogram)
    return found


def _weights(histogram: Histogram) -> Bars:
    bins = len(histogram.counts)
    width = (histogram.high - histogram.low) / bins
    return Bars([*(histogram.low + width * index for index in range(bins)), histogram.high], histogram.counts)


def _levels(histogram: Histogram) -> Bars:
    """A bar for each level, up to half the way to its neighbours."""
    levels = histogram.levels
    half = min((high - low for low, high in pairwise(levels)), default=1.0) / 2
    between = [(low + high) / 2 for low, high in pairwise(levels)]
    return Bars([levels[0] - half, *between, levels[-1] + half], histogram.at_levels)
