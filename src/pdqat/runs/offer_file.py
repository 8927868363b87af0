"""offer.json: what `pdqat plan` measured, so that a plan for another budget takes no time.

It belongs to one content of the chosen model, told by its SHA-256, and to what was asked for: other candidates,
another ranking or other images are measured anew.
"""

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pdqat.allocation.fitted import Trial
from pdqat.allocation.offer import Offer
from pdqat.allocation.prices import Price
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize
from pdqat.precision import DROPPED, Precision
from pdqat.runs.folder import Run


def write_offer(run: Run, offered: Offer, asked: Mapping[str, Any]) -> None:
    """Keep it with the run; a folder that can't be written to keeps nothing."""
    if not os.access(run.path, os.W_OK):
        return
    prices = {
        layer: {**asdict(price), "held": None if math.isinf(price.held) else price.held}
        for layer, price in offered.prices.items()
    }
    costs = {layer: {str(it): cost for it, cost in row.items()} for layer, row in offered.costs.items()}
    run.write_offer(
        {
            "asked": _asked(run, asked),
            "by": offered.by,
            "prices": prices,
            "costs": costs,
            "sizes": {layer: asdict(size) for layer, size in offered.sizes.items()},
            "before": {layer: str(precision) for layer, precision in offered.before.items()},
            "excluded": offered.excluded,
            "branches": {layer: list(feeding) for layer, feeding in offered.branches.items()},
            "alone": [_written(trial) for trial in offered.alone],
            "proposed": [_written(trial) for trial in offered.proposed],
        }
    )


def read_offer(run: Run, asked: Mapping[str, Any]) -> Offer | None:
    """What was measured for this; None if there is nothing."""
    stored = run.offer()
    if stored is None or stored["asked"] != _asked(run, asked):
        return None
    named = stored["before"].keys()
    if not (stored["costs"].keys() == stored["sizes"].keys() <= named and stored["prices"].keys() <= named):
        raise InputError(f"{run.offer_file} is damaged: it does not speak of the same layers throughout")
    branches = stored.get("branches", {})  # an older file has none, and no trials
    trials = {key: stored.get(key, []) for key in ("alone", "proposed")}
    if not all({layer, *feeding} <= stored["costs"].keys() for layer, feeding in branches.items()) or not all(
        str(DROPPED) in stored["costs"][layer] for layer in branches
    ):
        raise InputError(f"{run.offer_file} is damaged: it drops layers that it does not offer to drop")
    if not all(trial["changed"].keys() <= stored["costs"].keys() for of in trials.values() for trial in of):
        raise InputError(f"{run.offer_file} is damaged: it changes layers that it does not offer to change")
    try:
        return Offer(
            stored["by"],
            {
                layer: Price(price["within"], price["beyond"], math.inf if price["held"] is None else price["held"])
                for layer, price in stored["prices"].items()
            },
            {
                layer: {Precision.parse(text): cost for text, cost in row.items()}
                for layer, row in stored["costs"].items()
            },
            {layer: LayerSize(**size) for layer, size in stored["sizes"].items()},
            {layer: Precision.parse(text) for layer, text in stored["before"].items()},
            stored["excluded"],
            branches,
            [_read(trial) for trial in trials["alone"]],
            [_read(trial) for trial in trials["proposed"]],
        )
    except InputError as error:
        raise InputError(f"{run.offer_file} is damaged: {error}") from error


def _written(trial: Trial) -> dict[str, Any]:
    return {"changed": {layer: str(precision) for layer, precision in trial.changed.items()}, "loss": trial.loss}


def _read(trial: Mapping[str, Any]) -> Trial:
    return Trial({layer: Precision.parse(text) for layer, text in trial["changed"].items()}, trial["loss"])


def _asked(run: Run, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": hashlib.sha256(run.best.read_bytes()).hexdigest(), **asked}
