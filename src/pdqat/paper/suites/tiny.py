"""`tiny`: recipes for low precision side by side, on MLPerf Tiny's image classifier in its pre-activation form.

All of them train the same network on the same batches for the same epochs. Where a recipe warms up, the first part of
these epochs is in full precision, so that none is trained for longer than another. The column `brevitas` is trained by
benchmarks/brevitas_cells.py.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from pdqat.config.train_config import TrainConfig
from pdqat.experiments.cells import Cell
from pdqat.paper.suites.methods import baseline, full, layers, output

SUITE = "tiny"
WARM_UP = 0.4
"""The part of the epochs in full precision, of every recipe that starts warm."""
EVERY_SEED, FIRST_SEED = (2, 1), (4, 8)
"""The bits that are trained with every seed, and those that are trained with the first only."""

CELL_DECIDES = ("bits", "seed", "method")
PROTOCOL_DECIDES = (
    *("data", "model", "width", "image_size", "train_images", "epochs", "batch_size", "lr", "schedule", "compile"),
    *("amp", "device", "threads"),
)
"""What is not a recipe's to say."""


def _best(bits: int, seed: int) -> Cell:
    """What `pdqat train` does unless told otherwise."""
    usual = TrainConfig()
    others = (*CELL_DECIDES, *PROTOCOL_DECIDES)
    options = {
        field.name: getattr(usual, field.name) for field in dataclasses.fields(usual) if field.name not in others
    }
    return Cell(usual.method, bits, seed, options=options)


def _warm(cell: Cell, **options: Any) -> Cell:
    return dataclasses.replace(cell, options={"warm_up": WARM_UP, **options})


STEPS_AND_GRID_OF_BEST = {"quantizer": TrainConfig.quantizer, "optimizer": TrainConfig.optimizer}
"""What a training without constraints has of `best`: the difference is what constraints cost."""

RECIPES: dict[str, Callable[[int, int], Cell]] = {
    "ste": baseline,
    "ste-normal-muon": lambda bits, seed: dataclasses.replace(baseline(bits, seed), options=STEPS_AND_GRID_OF_BEST),
    "ste-warm": lambda bits, seed: _warm(baseline(bits, seed)),
    "lsq-warm": lambda bits, seed: _warm(baseline(bits, seed), quantizer="lsq"),
    "pdqat-output": output,
    "pdqat-layers": layers,
    "best": _best,
}
"""By name, the cell of bits and seed."""
BREVITAS, FLOAT = "brevitas", "float"


def tiny(seed: int) -> list[Cell]:
    """Every recipe at every precision, and full precision."""
    every_bits = EVERY_SEED if seed else (*EVERY_SEED, *FIRST_SEED)
    low = [_named(name, make(bits, seed)) for bits in every_bits for name, make in RECIPES.items()]
    return [*low, _named(FLOAT, full(seed))]


def _named(recipe: str, cell: Cell) -> Cell:
    return dataclasses.replace(cell, suite=SUITE, recipe=recipe)
