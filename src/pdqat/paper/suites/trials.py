"""Side questions about the paper's method.

`schedule` chooses the budget's learning rate on full precision alone, `gap` (2 bits) and `gap-1bit` ask what brings the
exact gradient closer to straight-through training, `settling` which dual rule and rate lets multipliers settle. These
last three need many cells, so they are best trained under `quick`.
"""

from typing import Any

from pdqat.config.train_config import Method
from pdqat.experiments.cells import FULL_PRECISION_BITS, Cell
from pdqat.paper.suites.methods import TABLE_1_LAYER_TOLERANCES, baseline, full, layers, output_tolerance
from pdqat.paper.suites.paper import DUALS_TOLERANCE

SCHEDULE_EPOCHS = 3
GAP_BITS = 2


def schedule(seed: int) -> list[Cell]:
    """Full precision under schedules and rates."""
    choices = [("steps", 1e-3), ("one-cycle", 5e-3), ("one-cycle", 1e-2), ("one-cycle", 2e-2)]
    return [
        Cell(
            Method.FULL,
            FULL_PRECISION_BITS,
            seed,
            variant=f"{how}-{rate:g}",
            options={"schedule": how, "lr": rate, "epochs": SCHEDULE_EPOCHS},
        )
        for how, rate in choices
    ]


RELATIVE: dict[str, Any] = {"layer_distance": "relative"}
RELATIVE_TOLERANCE, CLOSE_TOLERANCE = 0.1, 0.02
KL: dict[str, Any] = {"output_distance": "kl"}
"""The paper's cross-entropy also asks f to be sure of itself; the divergence only to agree."""
KL_TOLERANCE = 0.1
SETTLING_FIRST = "kl-relative"
"""With the paper's dual rule and as many steps: what the others of `settling` are compared with."""
MULTIPLICATIVE: dict[str, Any] = {"dual_rule": "multiplicative", "dual_rate": 0.5}
SETTLED, SETTLED_OPTIONS = "kl-relative-multiplicative", {**KL, **RELATIVE, **MULTIPLICATIVE}
"""The same, with multipliers that come closest to rest within the epochs."""
STRAIGHT_THROUGH: dict[str, Any] = {"gradient": "straight-through"}
UNMOVED: dict[str, Any] = {"dual_rate": 0.0}
"""The output's multiplier stays 1, those of layers 0: tolerances have no say, so that distances can be compared."""


def _variant(
    name: str,
    seed: int,
    tolerance: float,
    start: Cell | None = None,
    length: int = 1,
    bits: int = GAP_BITS,
    **options: Any,
) -> Cell:
    """The cell of PDQAT (ii) with something changed."""
    return Cell(
        Method.PDQAT_LAYERS,
        bits,
        seed,
        tolerance,
        KL_TOLERANCE if "output_distance" in options else output_tolerance(bits),
        variant=name,
        options=options,
        times_as_long=length,
        starts_from=start,
    )


def gap(seed: int) -> list[Cell]:
    """Where a variant is trained for longer in all, so is the baseline."""
    plain, loose = full(seed), TABLE_1_LAYER_TOLERANCES[GAP_BITS]
    return [
        baseline(GAP_BITS, seed),
        layers(GAP_BITS, seed),
        _variant("kl", seed, loose, **KL),
        _variant(SETTLED, seed, RELATIVE_TOLERANCE, **SETTLED_OPTIONS),
        _variant(f"{SETTLED}-closer", seed, RELATIVE_TOLERANCE / 2, **SETTLED_OPTIONS),
        _variant(f"{SETTLED}-close", seed, CLOSE_TOLERANCE, **SETTLED_OPTIONS),
        plain,
        _variant("straight-through", seed, loose, **STRAIGHT_THROUGH),
        _variant("kl-straight-through", seed, loose, **KL, **STRAIGHT_THROUGH),
        _variant(f"{SETTLED}-straight-through", seed, RELATIVE_TOLERANCE, **SETTLED_OPTIONS, **STRAIGHT_THROUGH),
        _variant("multiplier-1", seed, loose, **UNMOVED),
        _variant("kl-multiplier-1", seed, loose, **KL, **UNMOVED),
        _variant("kl-close", seed, CLOSE_TOLERANCE, **KL, **RELATIVE, dual_rate=1.0),
        _variant("warm-start", seed, loose, plain),
        Cell(Method.STE, GAP_BITS, seed, variant="warm-start", starts_from=plain),
        _variant(SETTLING_FIRST, seed, RELATIVE_TOLERANCE, **KL, **RELATIVE),
        layers(GAP_BITS, seed, DUALS_TOLERANCE),
        _variant("dual-rate-1", seed, loose, dual_rate=1.0),
        _variant("exact-norms", seed, loose, gradient="exact"),
        _variant("twice-as-long", seed, loose, length=2),
        Cell(Method.STE, GAP_BITS, seed, variant="twice-as-long", times_as_long=2),
    ]


def gap_1bit(seed: int) -> list[Cell]:
    """The variants that were worth most at 2 bits."""
    loose = TABLE_1_LAYER_TOLERANCES[1]
    return [
        baseline(1, seed),
        layers(1, seed),
        _variant(SETTLED, seed, RELATIVE_TOLERANCE, bits=1, **SETTLED_OPTIONS),
        _variant("kl-straight-through", seed, loose, bits=1, **KL, **STRAIGHT_THROUGH),
        _variant(f"{SETTLED}-looser", seed, 4 * RELATIVE_TOLERANCE, bits=1, **SETTLED_OPTIONS),
        _variant("kl", seed, loose, bits=1, **KL),
    ]


def settling(seed: int) -> list[Cell]:
    """Dual rules and rates."""
    often: dict[str, Any] = {"dual_every": 10, "dual_rate": 0.1}
    variants: dict[str, dict[str, Any]] = {
        SETTLING_FIRST: {},
        SETTLED: MULTIPLICATIVE,
        f"{SETTLED}-every-10-steps": {**MULTIPLICATIVE, **often},
        "kl-relative-every-10-steps": often,
        "kl-relative-nupi": {**often, "dual_rule": "nupi", "dual_nu": 0.9, "dual_damping": 1.0},
        "kl-relative-rate-1": {"dual_rate": 1.0},
    }
    return [_variant(name, seed, RELATIVE_TOLERANCE, **KL, **RELATIVE, **options) for name, options in variants.items()]
