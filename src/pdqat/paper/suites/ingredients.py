"""`ingredients`: what could make low precision better, each alone on top of one base.

The base is the output constraint by divergence with a straight-through gradient; a recipe's name says what it adds.
"""

import dataclasses
from typing import Any

from pdqat.config.train_config import Method
from pdqat.experiments.cells import Cell
from pdqat.paper.suites.methods import full
from pdqat.paper.suites.tiny import WARM_UP
from pdqat.paper.suites.trials import KL, KL_TOLERANCE, MULTIPLICATIVE, STRAIGHT_THROUGH

SUITE = "ingredients"
BASE, TEACHER = "base", "float-twice-as-long"
EVERY_BITS = (2, 1)
RELATIVE_TOLERANCES = {2: 0.1, 1: 0.4}
"""Below what layers have without constraints: medians of 0.14 and 5 in the cells `kl-straight-through`."""
SQUARED_TOLERANCES = {2: 0.028, 1: 0.0125}
"""The tightest that the authors tried."""

WARM: dict[str, Any] = {"warm_up": WARM_UP}
LOW: dict[str, Any] = {"objective": "low"}
ADDED: dict[str, dict[str, Any]] = {
    BASE: {},
    "warm-up": WARM,
    "objective-low": LOW,
    "objective-low-warm-up": {**LOW, **WARM},
    "dorefa-lsq": {"quantizer": "dorefa-lsq"},
    "lsq": {"quantizer": "lsq"},
    "loss": {"loss_tolerance": 0.3},
    "view-sample": {"view_sample": 0.5},
    "no-norm-batches": {"norm_batches": 0},
    "multiplicative": MULTIPLICATIVE,
    "nupi": {"dual_rule": "nupi", "dual_nu": 0.9, "dual_damping": 1.0},
    "dual-restart": {"dual_restart": True},
    "flip-rate": {"flip_rate": 0.01},
    "progressive": {"progressive": ["4"]},
    "exact-warm-up": {"gradient": "exact", **WARM},
}


def ingredients(seed: int) -> list[Cell]:
    """Every ingredient at 2 bits and at 1, and the teacher of one of them."""
    teacher = dataclasses.replace(full(seed), suite=SUITE, recipe=TEACHER, times_as_long=2)
    cells = []
    for bits in EVERY_BITS:
        cells += [_on_base(name, bits, seed, options) for name, options in ADDED.items()]
        cells += [_with_layers(f"layers-{distance}", bits, seed, distance) for distance in ("relative", "squared")]
        cells.append(dataclasses.replace(_on_base("teacher", bits, seed, {}), taught_by=teacher))
    return [*cells, teacher]


def _on_base(name: str, bits: int, seed: int, options: dict[str, Any]) -> Cell:
    every = {**KL, **STRAIGHT_THROUGH, **options}
    return Cell(Method.PDQAT_OUTPUT, bits, seed, KL_TOLERANCE, options=every, suite=SUITE, recipe=name)


def _with_layers(name: str, bits: int, seed: int, distance: str) -> Cell:
    tolerance = (RELATIVE_TOLERANCES if distance == "relative" else SQUARED_TOLERANCES)[bits]
    base = _on_base(name, bits, seed, {"layer_distance": distance})
    return dataclasses.replace(base, method=Method.PDQAT_LAYERS, tolerance=tolerance, output_tolerance=KL_TOLERANCE)
