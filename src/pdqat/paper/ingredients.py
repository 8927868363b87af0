"""`ingredients`: what each is worth on top of the base, and what it costs."""

from collections.abc import Sequence

from pdqat.experiments.cells import FULL_PRECISION_BITS
from pdqat.experiments.results import Entry
from pdqat.experiments.statistics import percent
from pdqat.experiments.tables import Grid
from pdqat.paper.artefact import Artefact, of_pairs, of_recipe, paired
from pdqat.paper.suites.ingredients import BASE, EVERY_BITS

KEYS = ("validation_accuracy_low", "test_accuracy_low", "test_accuracy_full")


def ingredients(entries: Sequence[Entry]) -> Artefact:
    """A table for every precision: accuracy, what is gained over the base, and how many times as long it took."""
    return Artefact([_worth(entries, bits) for bits in EVERY_BITS])


def _worth(entries: Sequence[Entry], bits: int) -> Grid:
    base = of_recipe(entries, BASE, bits)
    rows, mixed = [], 0
    here = [entry for entry in entries if entry["bits"] in (bits, FULL_PRECISION_BITS)]
    for recipe in dict.fromkeys(entry["recipe"] for entry in here):
        cells = [entry for entry in here if entry["recipe"] == recipe]
        points, of_two = paired([entry for entry in cells if entry["test_accuracy_low"] is not None], base)
        mixed += of_two
        accuracies = [str(percent(cells, key)) for key in KEYS]
        rows.append((recipe, *accuracies, "" if recipe == BASE else of_pairs(points), _time(cells, base)))
    title = (
        f"Ingredients at {bits} bit{'s' * (bits > 1)}, each alone on top of the base; gain in points over pairs of the "
        f"same seed and processor; pairs left out because their processors differ: {mixed}"
    )
    headings = ("ingredient", "validation, low", "test, low", "test, full", "test, low - base", "time / base")
    return Grid(title, headings, tuple(rows))


def _time(cells: Sequence[Entry], base: Sequence[Entry]) -> str:
    """How many times as long as the base it took, where both ran on one processor."""
    seconds = {(entry["seed"], entry["processor"]): entry["seconds"] for entry in base}
    ratios = [
        entry["seconds"] / seconds[entry["seed"], entry["processor"]]
        for entry in cells
        if (entry["seed"], entry["processor"]) in seconds
    ]
    return f"{sum(ratios) / len(ratios):.2f}" if ratios else "-"
