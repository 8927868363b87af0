"""The cells of the paper's methods, of which suites are made."""

from pdqat.config.presets import PAPER_OUTPUT_TOLERANCES
from pdqat.config.train_config import Method
from pdqat.experiments.cells import FULL_PRECISION_BITS, Cell

TABLE_1_LAYER_TOLERANCES = {8: 0.031, 4: 0.25, 2: 0.67, 1: 1.0}
"""Of those that the authors tried, the ones with the best accuracy; at 8 bits the loosest."""


def full(seed: int) -> Cell:
    """The cell of plain full precision."""
    return Cell(Method.FULL, FULL_PRECISION_BITS, seed)


def baseline(bits: int, seed: int) -> Cell:
    """The cell of DoReFa by straight-through gradient."""
    return Cell(Method.STE, bits, seed)


def output(bits: int, seed: int, tolerance: float | None = None) -> Cell:
    """The cell of PDQAT (i): constrained outputs."""
    return Cell(Method.PDQAT_OUTPUT, bits, seed, output_tolerance(bits) if tolerance is None else tolerance)


def layers(bits: int, seed: int, tolerance: float | None = None) -> Cell:
    """The cell of PDQAT (ii): constrained outputs and layers."""
    of_layers = TABLE_1_LAYER_TOLERANCES[bits] if tolerance is None else tolerance
    return Cell(Method.PDQAT_LAYERS, bits, seed, of_layers, output_tolerance(bits))


def output_tolerance(bits: int) -> float:
    """The output tolerance of Table 1."""
    return PAPER_OUTPUT_TOLERANCES[str(bits)]
