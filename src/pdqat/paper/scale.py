"""`scale`: the gap of the paper's method to the baseline by width and steps."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from pdqat.experiments.results import Entry
from pdqat.experiments.statistics import percent
from pdqat.experiments.tables import Grid
from pdqat.paper.artefact import Artefact, of_pairs, paired
from pdqat.paper.suites.scale import BASELINE, BITS, EXACT
from pdqat.pictures import BLUE, GREY, ORANGE

COLORS = (BLUE, ORANGE, "#4a8f4a")

Size = tuple[int, int]
"""Width and epochs."""


def scale(entries: Sequence[Entry]) -> Artefact:
    """Accuracies by width and epochs with their gap, and the gaps as lines over the epochs."""
    sizes = sorted({(entry["width"], entry["epochs"]) for entry in entries})
    return Artefact([_accuracies(entries, sizes)], {"": _gaps(entries, sizes)})


def _of(entries: Sequence[Entry], recipe: str, size: Size) -> list[Entry]:
    return [entry for entry in entries if entry["recipe"] == recipe and (entry["width"], entry["epochs"]) == size]


def _paired(entries: Sequence[Entry], size: Size) -> tuple[list[tuple[float, float]], int]:
    return paired(_of(entries, EXACT, size), _of(entries, BASELINE, size))


def _accuracies(entries: Sequence[Entry], sizes: Sequence[Size]) -> Grid:
    rows = [
        (
            str(size[0]),
            str(size[1]),
            str(percent(_of(entries, BASELINE, size), "test_accuracy_low")),
            str(percent(_of(entries, EXACT, size), "test_accuracy_low")),
            str(percent(_of(entries, EXACT, size), "test_accuracy_full")),
            of_pairs(_paired(entries, size)[0]),
        )
        for size in sizes
    ]
    mixed = sum(_paired(entries, size)[1] for size in sizes)
    title = (
        f"Test accuracy at {BITS} bit by width and epochs; (ii) as published, by the exact gradient; pairs left out "
        f"because their processors differ: {mixed}"
    )
    return Grid(title, ("width", "epochs", "baseline", "(ii)", "f of (ii)", "(ii) - baseline"), tuple(rows))


def _gaps(entries: Sequence[Entry], sizes: Sequence[Size]) -> Figure:
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots()
    drawn: set[int] = set()
    for color, width in zip(COLORS, sorted({width for width, _ in sizes}), strict=False):
        points = []
        for size in (size for size in sizes if size[0] == width):
            gaps = [ours - other for ours, other in _paired(entries, size)[0]]
            points += [(size[1], sum(gaps) / len(gaps))] if gaps else []
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=color, label=f"width {width}")
            drawn.update(epochs for epochs, _ in points)
    axes.axhline(0, color=GREY, lw=0.8, ls=":")
    if drawn:
        axes.set_xscale("log")
        axes.set_xticks(sorted(drawn), [str(epochs) for epochs in sorted(drawn)], minor=False)
        axes.minorticks_off()
        axes.legend(frameon=False)
    axes.set_xlabel("epochs")
    axes.set_ylabel("(ii) - baseline, points of test accuracy")
    return figure
