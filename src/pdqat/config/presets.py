"""Presets, and where a run's values come from: defaults, then a preset, then a TOML file, then flags."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from pdqat.config.old_keys import RENAMED, modern, with_former_values
from pdqat.config.train_config import Method, TrainConfig
from pdqat.dual_rules import Multiplicative
from pdqat.errors import InputError
from pdqat.precision import Precision
from pdqat.runs.folder import Run
from pdqat.suggestions import did_you_mean

PAPER_OUTPUT_TOLERANCES = {"8": 0.0039, "4": 0.1, "2": 0.7, "1": 0.9}
"""What Table 1 was made with."""

PRESETS: dict[str, dict[str, Any]] = {
    "best": {},
    "quickstart": {
        "width": 2,
        "validation": 0.2,
        "layer_tolerance": 0.1,
        "layer_sample": 1.0,
        "dual_rate": 0.03,
        "epochs": 60,
        "optimizer": "adam",
        "lr": 5e-3,
        "threads": 1,
    },
    "paper": {
        "data": "cifar10",
        "model": "preresnet20",
        "width": 5,
        "quantizer": "dorefa",
        "objective": "full",
        "gradient": "exact",
        "tied_norms": False,
        "view_sample": 1.0,
        "output_distance": "cross-entropy",
        "layer_distance": "squared",
        "layer_sample": 1.0,
        "dual_rate": 0.01,
        "dual_slack": "fresh",
        "epochs": 100,
        "batch_size": 128,
        "optimizer": "adam",
        "lr": 1e-3,
        "schedule": "steps",
        "norm_batches": 0,
        "milestones": [0.5, 0.75, 0.9],
        "decay": 0.1,
    },
    "deployable": {"quantizer": "normal-bytes", "integer_sums": True, "ends": "8", "normalize": False},
}


def config_of(run: Run) -> TrainConfig:
    """The configuration of a run of the command line; raises InputError if a key is missing, whatever its default."""
    options = with_former_values(run.options())
    lost = [key for key in TrainConfig().as_options() if key not in options and RENAMED.get(key) not in options]
    if lost:
        raise InputError(f"{run.config_file} is damaged: it has no {', '.join(lost)}")
    return resolve_config(None, options, {})


def resolve_config(preset: str | None, file: Mapping[str, Any], flags: Mapping[str, Any]) -> TrainConfig:
    """Defaults, then preset, then file, then flags. A file may name a preset too."""
    given = {**modern(file), **flags}
    preset = preset or given.pop("preset", None)
    given.pop("preset", None)
    known = [each.name for each in dataclasses.fields(TrainConfig)]
    unknown = [key for key in given if key not in known]
    if unknown:
        meant = did_you_mean(unknown[0], known)
        keys = f"preset, {', '.join(known)}"
        raise InputError(f"unknown key {unknown[0]!r} in the configuration{meant}; the keys are {keys}")
    if preset is not None and preset not in list(PRESETS):
        raise InputError(
            f"unknown preset {preset!r}{did_you_mean(preset, PRESETS)}; choose one of {', '.join(PRESETS)}"
        )
    config = TrainConfig(**_with_what_fits({**(PRESETS[preset] if preset else {}), **given}))
    if config.take_over and config.init is None:
        raise InputError("take_over takes from the checkpoint in init, which is not given")
    is_as_published = config.output_distance == "cross-entropy" and len(config.bits) == 1 and not config.plan
    if preset == "paper" and is_as_published and "output_tolerance" not in given:
        return dataclasses.replace(
            config, output_tolerance=PAPER_OUTPUT_TOLERANCES.get(str(Precision.parse(config.bits[0])))
        )
    return config


def _with_what_fits(values: dict[str, Any]) -> dict[str, Any]:
    """The values, and where nothing is said of an option, what suits the others: the defaults suit one another."""
    fitting: dict[str, Any] = {}
    if values.get("method") in (Method.FULL, Method.STE):
        fitting["quantizer"] = "dorefa"
    if values.get("dual_rule") == Multiplicative.name:
        fitting["dual_rate"] = Multiplicative.rate
    if values.get("method") == Method.STE:  # as DoReFa was published
        fitting["optimizer"] = "adam"
    if values.get("gradient", TrainConfig.gradient) != TrainConfig.gradient:
        fitting["objective"] = "full"
    if {**fitting, **values}.get("objective") == "full":
        fitting |= {"tied_norms": False, "view_sample": 1.0}
    return {**fitting, **values}
