"""Artefact: what a suite shows, and how its entries are picked and compared."""

from collections.abc import Iterable, Mapping
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


def difference(ours: Mapping[int, float], others: Mapping[int, float]) -> str:
    """Ours minus the others' by seed, over the seeds that both have."""
    seeds = sorted(set(ours) & set(others))
    if len(seeds) == 1:
        return f"{ours[seeds[0]] - others[seeds[0]]:+.2f}, n = 1"
    return str(Difference.of([(ours[seed], others[seed]) for seed in seeds]) or "-")
