"""Artefact: what a suite shows, and how its entries are picked and compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from pdqat.config.train_config import Method
from pdqat.experiments.results import Entry
from pdqat.experiments.statistics import Difference
from pdqat.experiments.tables import Grid

DIFFERENCES = "Differences in points over the same seeds, with 95 % intervals of Student's t for pairs"


@dataclass(frozen=True)
class Artefact:
    """Tables and figures of a suite."""

    tables: list[Grid]
    figures: dict[str, Figure] = field(default_factory=dict)
    """By what is added to the file's name."""


def select(entries: Iterable[Entry], method: Method, bits: int, tolerance: float | None = None) -> list[Entry]:
    """Those of this method with all layers in so many bits, and of this tolerance if one is given."""
    return [
        entry
        for entry in entries
        if entry["method"] == method
        and entry["bits"] == bits
        and (tolerance is None or entry["tolerance"] == tolerance)
        and entry["kept"] is None
    ]


def of_recipe(entries: Iterable[Entry], recipe: str, bits: int) -> list[Entry]:
    """Those of this recipe with all layers in so many bits."""
    return [entry for entry in entries if entry["recipe"] == recipe and entry["bits"] == bits]


def paired(ours: Iterable[Entry], others: Iterable[Entry]) -> tuple[list[tuple[float, float]], int]:
    """Test accuracies in low precision, in per cent, of pairs of one seed and one processor; how many mix processors.

    Another processor rounds otherwise, which grows to points in a training: such pairs are left out.
    """
    by_seed = {entry["seed"]: entry for entry in ours}
    pairs = [(by_seed[entry["seed"]], entry) for entry in others if entry["seed"] in by_seed]
    alike = [(one, two) for one, two in pairs if one["processor"] == two["processor"]]
    points = [(100 * one["test_accuracy_low"], 100 * two["test_accuracy_low"]) for one, two in alike]
    return points, len(pairs) - len(alike)


def difference(ours: Mapping[int, float], others: Mapping[int, float]) -> str:
    """Ours minus the others' by seed, over the seeds that both have."""
    return of_pairs([(ours[seed], others[seed]) for seed in sorted(set(ours) & set(others))])


def of_pairs(pairs: Sequence[tuple[float, float]]) -> str:
    """The first minus the second of every pair, in words."""
    if len(pairs) == 1:
        return f"{pairs[0][0] - pairs[0][1]:+.2f}, n = 1"
    return str(Difference.of(pairs) or "-")
