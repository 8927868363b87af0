"""`tiny`: the accuracy of every recipe by bits, and how sure it is that `best` is above the others."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from pdqat.experiments.cells import FULL_PRECISION_BITS
from pdqat.experiments.results import Entry
from pdqat.experiments.statistics import CONFIDENCE, Difference, holm, percent
from pdqat.experiments.tables import Grid
from pdqat.paper.artefact import Artefact, of_recipe, paired
from pdqat.paper.suites.tiny import BREVITAS, FLOAT, RECIPES
from pdqat.pictures import GREY

BITS = (8, 4, 2, 1)
BEST = "best"
OTHERS = (*(name for name in RECIPES if name != BEST), BREVITAS)


def tiny(entries: Sequence[Entry]) -> Artefact:
    """Accuracy by bits and recipe, the differences of `best` to every other, exported files, a point for every cell."""
    tables = [_accuracies(entries), _differences(entries), _exported(entries)]
    return Artefact([table for table in tables if table.rows], {"": _points(entries)})


def _accuracies(entries: Sequence[Entry]) -> Grid:
    rows = [
        (recipe, "", *(str(percent(of_recipe(entries, recipe, bits), "test_accuracy_low")) for bits in BITS))
        for recipe in (BEST, *OTHERS)
    ]
    of_float = str(percent(of_recipe(entries, FLOAT, FULL_PRECISION_BITS), "test_accuracy_full"))
    headings = ("recipe", "float", *(f"{bits} bit{'s' * (bits > 1)}" for bits in BITS))
    title = "Test accuracy in low precision by recipe and bits, mean ± standard deviation over seeds"
    return Grid(title, headings, (*rows, (FLOAT, of_float, *[""] * len(BITS))))


def _differences(entries: Sequence[Entry]) -> Grid:
    """What `best` is above the others, and how sure that is when so many are compared."""
    tests: list[tuple[str, str, Difference]] = []
    single: list[tuple[str, ...]] = []
    mixed = 0
    for bits in BITS:
        for other in OTHERS:
            points, of_two = paired(of_recipe(entries, BEST, bits), of_recipe(entries, other, bits))
            mixed += of_two
            difference = Difference.of(points)
            if difference is not None:
                tests.append((str(bits), other, difference))
            elif points:
                single.append((str(bits), other, f"{points[0][0] - points[0][1]:+.2f}", "", "", "", "1", ""))
    tested = [difference.p for *_, difference in tests if not math.isnan(difference.p)]
    corrected = iter(holm(tested))
    rows = [
        (bits, other, *_said(difference, math.nan if math.isnan(difference.p) else next(corrected)))
        for bits, other, difference in tests
    ]
    title = (
        f"{BEST} - other in points over pairs of the same seed and processor, Student's t for pairs, p with Holm's "
        f"correction for {len(tested)} comparisons; pairs left out because their processors differ: {mixed}"
    )
    headings = ("bits", "other", "difference", f"{100 * CONFIDENCE:g} % interval", "p", "p, Holm", "n", "significant")
    return Grid(title, headings, tuple(sorted([*rows, *single], key=lambda row: BITS.index(int(row[0])))))


def _said(difference: Difference, corrected: float) -> tuple[str, ...]:
    mean, n = f"{difference.mean:+.2f}", str(difference.n)
    if math.isnan(corrected):  # every seed has the same difference
        return mean, "", "", "", n, ""
    interval = f"[{difference.low:+.2f}, {difference.high:+.2f}]"
    return mean, interval, f"{difference.p:.2g}", f"{corrected:.2g}", n, "yes" if corrected < 1 - CONFIDENCE else "no"


def _exported(entries: Sequence[Entry]) -> Grid:
    """What the files of integers choose, beside the network that was trained, on the same test images."""
    rows = tuple(
        (str(entry["bits"]), entry["recipe"], str(entry["seed"]), file, runtime, *map(_as_percent, accuracies.values()))
        for bits in BITS
        for entry in sorted(entries, key=lambda entry: (entry["recipe"], entry["seed"]))
        if entry["bits"] == bits
        for file, runtimes in entry.get("exported", {}).items()
        for runtime, accuracies in runtimes.items()
    )
    headings = ("bits", "recipe", "seed", "file", "runtime", "accuracy", "simulated")
    return Grid("Test accuracy of exported files beside the simulated network's", headings, rows)


def _as_percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.2f}"


def _points(entries: Sequence[Entry]) -> Figure:
    """Bits from left to right, recipes side by side: a point for every seed, a line at their mean."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    shown = (BEST, *OTHERS)
    for index, recipe in enumerate(shown):
        shift = 0.8 * ((index + 0.5) / len(shown) - 0.5)
        points = [
            (place + shift, 100 * entry["test_accuracy_low"])
            for place, bits in enumerate(BITS)
            for entry in of_recipe(entries, recipe, bits)
        ]
        if not points:
            continue
        places, accuracies = np.array(points).T
        color = f"C{index}"
        axes.plot(places, accuracies, "o", ms=5 if recipe == BEST else 4, color=color, label=recipe)
        for place in np.unique(places):
            mean = accuracies[places == place].mean()
            axes.hlines(mean, place - 0.04, place + 0.04, color=color, lw=1.5)
    floats = [100 * entry["test_accuracy_full"] for entry in of_recipe(entries, FLOAT, FULL_PRECISION_BITS)]
    if floats:
        axes.axhline(float(np.mean(floats)), color=GREY, lw=0.8, ls=":", label=FLOAT)
    axes.set_xticks(range(len(BITS)), [str(bits) for bits in BITS])
    axes.set_xlim(-0.5, len(BITS) - 0.5)
    axes.set_xlabel("bits")
    axes.set_ylabel("test accuracy in low precision, %")
    if axes.get_legend_handles_labels()[0]:  # something is trained
        figure.legend(loc="outside upper center", ncols=4, frameon=False)
    return figure
