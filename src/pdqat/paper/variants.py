"""Variants of a training side by side: their accuracy, and what each is worth."""

from collections.abc import Sequence

from pdqat.config.train_config import Method
from pdqat.experiments.results import Entry
from pdqat.experiments.statistics import percent
from pdqat.experiments.tables import Grid
from pdqat.paper.artefact import DIFFERENCES, Artefact, difference
from pdqat.paper.suites.methods import baseline, layers
from pdqat.paper.suites.trials import GAP_BITS


def gap(entries: Sequence[Entry]) -> Artefact:
    """Mean accuracy of every variant, and what it is worth: over the paper's method, and over the baseline."""
    by_seed: dict[str, dict[int, float]] = {}
    for entry in entries:
        if entry["test_accuracy_low"] is not None:
            by_seed.setdefault(_trained(entry), {})[entry["seed"]] = 100 * entry["test_accuracy_low"]
    bits = next((entry["bits"] for entry in entries if entry["method"] != Method.FULL), GAP_BITS)
    references = [cell(bits, 0).trained for cell in (layers, baseline)]
    rows = tuple(
        (name, *("" if name == other else difference(ours, by_seed.get(other, {})) for other in references))
        for name, ours in by_seed.items()
    )
    worth = Grid(DIFFERENCES, ("cells", "test, low - (ii)", "test, low - baseline"), rows)
    return Artefact([*by_variant(entries).tables, worth])


def by_variant(entries: Sequence[Entry]) -> Artefact:
    """Mean accuracy of every variant over its seeds."""
    rows = []
    for name in dict.fromkeys(map(_trained, entries)):
        of_variant = [entry for entry in entries if _trained(entry) == name]
        views = tuple(f"{part}_accuracy_{view}" for view in ("low", "full") for part in ("validation", "test"))
        numbers = [str(percent(of_variant, key)) for key in views]
        rows.append((name, str(of_variant[0]["epochs"]), *numbers))
    headings = ("cells", "epochs", "validation, low", "test, low", "validation, full", "test, full")
    return Artefact([Grid("Accuracy, mean ± standard deviation over seeds", headings, tuple(rows))])


def _trained(entry: Entry) -> str:
    """The cell's name without its seed."""
    return str(entry["cell"]).rpartition("-seed")[0]
