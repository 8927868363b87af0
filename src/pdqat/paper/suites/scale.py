"""`scale`: does the gap of the paper's method to the baseline close with width and with steps?

At 1 bit, where it is largest, on images of 16 x 16 pixels, so that ten times the steps at four times the width stay
within reach. No gradient is estimated: not of the weights, nor of the norms.
"""

import dataclasses

from pdqat.experiments.cells import Cell
from pdqat.paper.suites.methods import baseline, layers

SUITE = "scale"
BITS = 1
WIDTHS = (1, 2, 4)
TIMES_AS_LONG = (1, 3, 10)
BASELINE, EXACT = "ste", "pdqat-layers-exact"


def scale(seed: int) -> list[Cell]:
    """The method and the baseline for every width and length, the cheapest first."""
    return [
        dataclasses.replace(
            cell,
            suite=SUITE,
            recipe=recipe,
            variant=f"width{width}-x{times}",
            options={"width": width, **options},
            times_as_long=times,
        )
        for width, times in sorted(
            ((width, times) for width in WIDTHS for times in TIMES_AS_LONG), key=lambda pair: pair[0] ** 2 * pair[1]
        )
        for recipe, cell, options in (
            (BASELINE, baseline(BITS, seed), {}),
            (EXACT, layers(BITS, seed), {"gradient": "exact"}),
        )
    ]
