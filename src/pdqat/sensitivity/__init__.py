"""Which layers need precision: rankings by the multipliers of a run, and by what others use instead.

A ranking maps every quantised layer to a score; the higher it is, the more the layer is said to need its precision.
"""

from collections.abc import Callable

from pdqat.errors import InputError
from pdqat.sensitivity.distance import layer_distance
from pdqat.sensitivity.divergence import only_high, only_low
from pdqat.sensitivity.duals import multipliers
from pdqat.sensitivity.gradient import first_order
from pdqat.sensitivity.hessian import trace_times_error
from pdqat.sensitivity.order import at_random, first_and_last
from pdqat.sensitivity.subject import Subject

Ranking = Callable[[Subject], dict[str, float]]

RANKINGS: dict[str, Ranking] = {
    "dual": multipliers,
    "hessian": trace_times_error,
    "gradient": first_order,
    "only-low": only_low,
    "only-high": only_high,
    "distance": layer_distance,
    "random": at_random,
    "first-and-last": first_and_last,
}


def ranking(name: str) -> Ranking:
    """The ranking of that name."""
    if name not in RANKINGS:
        raise InputError(f"unknown ranking {name!r}; choose one of {', '.join(RANKINGS)}")
    return RANKINGS[name]
