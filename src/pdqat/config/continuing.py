"""Continuing from a finished run (`--from`): which options a new training takes from it, which layers it names."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pdqat.config.presets import config_of
from pdqat.config.train_config import Level, Method, TrainConfig
from pdqat.errors import InputError
from pdqat.precision import FULL, BitPlan
from pdqat.runs.folder import Run


def options_of(run: Run, given: dict[str, Any]) -> dict[str, Any]:
    """The options of a finished run as far as they still apply beside those that are given."""
    summary = run.summary()
    config = config_of(run)
    for name in ("seed", "validation"):
        if given.get(name, getattr(config, name)) != getattr(config, name):
            raise InputError(
                f"--from goes on with the run's own split of the images, so with its {name}, {getattr(config, name)}; "
                f"give no --{name}"
            )
    before = {key: value for key, value in dataclasses.asdict(config).items() if value is not None}
    before |= {"progressive": [], "warm_up": 0.0}  # it has come down to its bits, and is warm
    if config.budget is not None:  # it is met: go on with the plan that it led to
        del before["budget"]
        before["plan"] = next(iter(summary["plans"].values()))
    outputs = [bound["tolerance"] for bound in summary["constraints"] if bound["kind"] == "output"]
    same_distance = given.get("output_distance", config.output_distance) == config.output_distance
    if "bits" not in given and same_distance and len(outputs) == 1:  # what the model is for stays as it was
        before["output_tolerance"] = outputs[0]
    if "bits" in given:
        before["plan"] = {}
    elif before["plan"] and given.get("budget") is None:
        before["layers"] = {}
    if given.get("method", config.method) != Method.PDQAT_LAYERS:
        for name in ("tolerance_price", "tolerances"):
            before.pop(name, None)
    if given.get("level", config.level) != Level.BLOCK:
        before.pop("blocks", None)
    return before


def starting_point(run: Run) -> dict[str, Any]:
    """Its best weights, with its multipliers and norms if it has a low-precision view."""
    return {"init": str(run.best), "take_over": config_of(run).method is not Method.FULL}


def name_the_same_layers(config: TrainConfig, plans: Mapping[str, BitPlan], run: Run) -> TrainConfig:
    """The configuration with a plan that names the layers of the run's: those it leaves out stay in full precision.

    The weights mean the same only where they are read the same way: through `quantizer.full` in the layers that the
    run's plan names, as they are in all others.
    """
    before: dict[str, str] = next(iter(run.summary()["plans"].values()), {})
    now = next(iter(plans.values())).precisions
    new = next((layer for layer in now if layer not in before), None)
    if new is not None:
        raise InputError(
            f"the run {run.path} did not quantise the layer {new}: to read its weights in low precision would make "
            f"another network of it; leave it in full precision, or train without --from"
        )
    missing = next((layer for layer in before if layer not in now), None)
    if missing is None:
        return config
    if config.budget is not None or config.method is Method.FULL or len(plans) > 1:
        raise InputError(
            f"the run {run.path} quantises the layer {missing}: to leave it out would make another network of it; "
            "name it in a plan, as 'full' if it is to stay in full precision"
        )
    plan = {layer: str(now.get(layer, FULL)) for layer in before}
    return dataclasses.replace(config, plan=plan, layers={})
