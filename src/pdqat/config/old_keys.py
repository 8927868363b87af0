"""Configurations of earlier versions, in today's keys: files on disk stay readable."""

from collections.abc import Mapping
from typing import Any

from pdqat.errors import InputError

FORMER: dict[str, Any] = {
    "accumulate": 1,
    "dual_restart": False,
    "ends": "full",
    "log": [],
    "norm_batches": 0,
    "normalize": True,
    "objective": "full",
    "optimizer": "adam",
    "progressive": [],
    "sync_norms": True,
    "view_sample": 1.0,
    "warm_up": 0.0,
}
"""What runs did before there was a key for it. Any other key that a run's own file lacks was lost."""
RENAMED = {"take_over": "carry", "tied_norms": "norm"}
"""The earlier keys that today's are made of."""
NORMS = ("ste", "exact", "tied")


def with_former_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a run's own file, and what the run did where there was no key for it."""
    rate = 0.5 if options.get("dual_rule") == "multiplicative" else 0.01
    return {**FORMER, "dual_rate": rate, **options}


def modern(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options in today's keys.

    carry           is take_over
    norm, gradient  were two keys for what a gradient through f^q may reach: exact with norm ste is norms

    >>> modern({"norm": "ste", "gradient": "exact"})
    {'gradient': 'norms', 'tied_norms': False}
    """
    renamed = {"take_over" if key == "carry" else key: value for key, value in options.items()}
    if "norm" in renamed:
        norm = renamed.pop("norm")
        if norm not in NORMS:
            raise InputError(f"norm must be one of {', '.join(NORMS)}, not {norm!r}")
        if renamed.get("gradient", "exact") == "exact":
            renamed["gradient"] = "norms" if norm == "ste" else "exact"
        renamed["tied_norms"] = norm == "tied"
    return renamed
