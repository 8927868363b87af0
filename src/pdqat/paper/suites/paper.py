"""What the paper's own tables and figures need, the most telling cells first."""

import dataclasses

from pdqat.experiments.cells import Cell, Kept
from pdqat.paper import published
from pdqat.paper.suites.methods import baseline, full, layers, output

FIGURE_1_BITS, FIGURE_1_TOLERANCE = 1, 0.0125
KEPT_COUNTS = (8, 4, 2, 1)
DUALS_BITS, DUALS_TOLERANCE = 2, 0.055


def table1(seed: int) -> list[Cell]:
    """Baseline, (ii) and (i) at every precision, and full precision."""
    cells = [make(bits, seed) for bits in (2, 1, 4, 8) for make in (baseline, layers, output)]
    return [*cells, full(seed)]


def ablation_output(seed: int) -> list[Cell]:
    """(i) at every published output tolerance."""
    return [output(bits, seed, tolerance) for bits, tolerance in _two_bits_first(published.OUTPUT_ABLATION)]


def ablation_layer(seed: int) -> list[Cell]:
    """(ii) at every published layer tolerance."""
    return [layers(bits, seed, tolerance) for bits, tolerance in _two_bits_first(published.LAYER_ABLATION)]


def _two_bits_first(pairs: dict[tuple[int, float], float]) -> list[tuple[int, float]]:
    return sorted(pairs, key=lambda pair: (2, 1, 4).index(pair[0]))


def figure1(seed: int) -> list[Cell]:
    """Tight layer constraints, none, and the layers kept that their multipliers choose."""
    base = layers(FIGURE_1_BITS, seed, FIGURE_1_TOLERANCE)
    retrained = [
        dataclasses.replace(base, kept=Kept(base, count, largest)) for count in KEPT_COUNTS for largest in (True, False)
    ]
    return [base, output(FIGURE_1_BITS, seed), *retrained]


def duals(seed: int) -> list[Cell]:
    """One training whose multipliers move."""
    return [layers(DUALS_BITS, seed, DUALS_TOLERANCE)]
