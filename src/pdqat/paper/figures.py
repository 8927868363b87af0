"""The figures, drawn without a display."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from pdqat.experiments.results import Entry
from pdqat.experiments.statistics import layer_names
from pdqat.paper import published
from pdqat.pictures import BLUE, GREY, ORANGE

OURS, OTHER, PAPER = BLUE, ORANGE, GREY


def distances(without: dict[str, float], with_layers: dict[str, float], tolerance: float) -> Figure:
    """Figure 1a: a pair of bars for every layer, with the paper's where it names them."""
    layers = list(without)
    place = np.arange(len(layers))
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    for by_layer, shift, color, label in (
        (without, -0.2, OTHER, "output constraint only"),
        (with_layers, 0.2, OURS, f"output and layers, tolerance {tolerance:g}"),
    ):
        axes.bar(place + shift, [by_layer[layer] for layer in layers], 0.4, color=color, label=label)
    theirs = [
        (layers.index(layer) + shift, value)
        for layer, pair in published.LAYER_DISTANCES.items()
        if layer in layers
        for shift, value in zip((-0.2, 0.2), pair, strict=True)
    ]
    if theirs:
        axes.plot(*zip(*theirs, strict=True), "D", color=PAPER, ms=4, label="paper, width 5, 100 epochs")
    axes.axhline(tolerance, color=PAPER, lw=0.8, ls=":")
    axes.set_xticks(place, layers, rotation=60, ha="right", fontsize=8)
    axes.set_yscale("log")
    axes.set_ylabel("mean squared error")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def by_sum(kept: Sequence[Entry]) -> Figure:
    """Figure 1b: train accuracy against the sum of the multipliers of the layers kept in full precision."""
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots()
    for largest, color in ((True, OURS), (False, OTHER)):
        retrained = [entry for entry in kept if entry["kept_largest"] is largest]
        label = f"{'largest' if largest else 'smallest'} multipliers"
        accuracies = [100 * entry["train_accuracy_low"] for entry in retrained]
        axes.scatter([sum(entry["kept"].values()) for entry in retrained], accuracies, color=color, label=label)
    sums, train, _ = zip(*sorted(published.KEPT_LAYERS.values()), strict=True)
    axes.plot(sums, train, ".", color=PAPER, label="paper, width 5, 100 epochs")
    axes.set_xlabel("sum of the multipliers of layers in full precision")
    axes.set_ylabel("train accuracy, %")
    axes.legend(frameon=False)
    return figure


def by_number(kept: Sequence[Entry]) -> Figure:
    """Figure 1c: accuracy against the number of layers kept, largest against smallest multipliers."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    train, test = figure.subplots(1, 2)
    for axes, key, column, name in (
        (train, "train_accuracy_low", 1, "train"),
        (test, "test_accuracy_low", 2, "test"),
    ):
        for largest, color, mark in ((True, OURS, "o-"), (False, OTHER, "s-")):
            retrained = [entry for entry in kept if entry["kept_largest"] is largest]
            counts = sorted({len(entry["kept"]) for entry in retrained})
            accuracies = [[100 * entry[key] for entry in retrained if len(entry["kept"]) == count] for count in counts]
            spread = [np.std(of_count, ddof=1) if len(of_count) > 1 else 0.0 for of_count in accuracies]
            label = f"{'largest' if largest else 'smallest'} multipliers"
            axes.errorbar(counts, list(map(np.mean, accuracies)), spread, fmt=mark, color=color, label=label)
            theirs = {count: row[column] for (count, which), row in published.KEPT_LAYERS.items() if which is largest}
            axes.plot(
                list(theirs), list(theirs.values()), mark, color=PAPER, ms=3, lw=0.8, label=f"paper (width 5), {label}"
            )
        axes.set_xlabel("layers in full precision")
        axes.set_ylabel(f"{name} accuracy, %")
    train.legend(frameon=False, fontsize=8)
    return figure


def multipliers(entry: Entry) -> Figure:
    """Every multiplier over the epochs, with the slack that moves it."""
    names = list(entry["multipliers"])
    columns = 5
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(2.6 * columns, 1.9 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    epochs = np.arange(1, len(entry["multipliers"][names[0]]) + 1)
    for axes, name in zip(grid.flat, names, strict=False):
        axes.plot(epochs, entry["multipliers"][name], color=OURS, clip_on=False)  # seen also at 0
        axes.set_ylim(0, 1.05 * max(entry["multipliers"][name]) or 1)
        axes.set_title(name, fontsize=8)
        axes.tick_params(labelsize=7)
        slack = axes.twinx()
        slack.plot(epochs, entry["slacks"][name], color=OTHER, lw=0.8)
        slack.axhline(0, color=OTHER, lw=0.4, ls=":")
        slack.tick_params(labelsize=7, colors=OTHER)
    for axes in list(grid.flat)[len(names) :]:
        axes.set_axis_off()
    figure.supxlabel("epoch", fontsize=10)
    figure.suptitle("multipliers (blue, left axis) and slacks (orange, right axis)", fontsize=10)
    return figure


def settling(entries: Sequence[Entry]) -> Figure:
    """A column for every dual rule: layer multipliers over the epochs, and distances in units of their tolerance."""
    figure = Figure(figsize=(2.8 * len(entries) + 0.6, 4.6), layout="constrained")
    grid = figure.subplots(2, len(entries), squeeze=False, sharex=True, sharey="row")
    for (above, below), entry in zip(grid.T, entries, strict=True):
        for name in layer_names(entry):
            epochs = np.arange(1, len(entry["multipliers"][name]) + 1)
            above.plot(epochs, entry["multipliers"][name], color=OURS, lw=0.7)
            below.plot(epochs, 1 + np.array(entry["slacks"][name]) / entry["tolerance"], color=OTHER, lw=0.7)
        above.set_title(entry["variant"], fontsize=8)
        above.set_yscale("symlog", linthresh=1e-3)
        below.set_yscale("log")
        below.axhline(1, color=PAPER, lw=0.8, ls=":")
    grid[0, 0].set_ylabel("multiplier")
    grid[1, 0].set_ylabel("distance / tolerance")
    figure.supxlabel("epoch")
    return figure
