"""TrainConfig: everything a training run depends on, typed, validated once, written back in full into the run folder.

Values come from the defaults here, then a preset, then a TOML file, then flags, each overriding the one before.
"""

import dataclasses
import math
import re
import tomllib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import tomli_w

from pdqat import data, models
from pdqat.allocation.budget import BUDGET_FORM, Budget
from pdqat.allocation.choices import CANDIDATES, choices
from pdqat.constraints import OutputDistance
from pdqat.duals import DualRule
from pdqat.errors import InputError
from pdqat.lagrangian import GradientChoice
from pdqat.layers import Distance
from pdqat.precision import Precision
from pdqat.quantizers import SCHEMES


class Method(StrEnum):
    """What is trained."""

    FULL = "full"
    """Plain full precision."""
    STE = "ste"
    """Straight-through QAT: the task loss of the low-precision view (the paper's DoReFa baseline)."""
    PDQAT_OUTPUT = "pdqat-output"
    """PDQAT with an output constraint only, (i) in the paper."""
    PDQAT_LAYERS = "pdqat-layers"
    """PDQAT with output and layer constraints, (ii) in the paper."""


class Level(StrEnum):
    """What a constraint below the output speaks of."""

    LAYER = "layer"
    CHANNEL = "channel"
    BLOCK = "block"


class NormChoice(StrEnum):
    """What a plan's own batch norms are: see docs/method.md."""

    STE = "ste"
    EXACT = "exact"
    TIED = "tied"


class Schedule(StrEnum):
    """How the learning rate goes: see `schedule`."""

    STEPS = "steps"
    ONE_CYCLE = "one-cycle"


class SlackSource(StrEnum):
    """Where the slacks of a dual step come from."""

    FRESH = "fresh"
    """An evaluation pass over training images."""
    RUNNING = "running"
    """The mean over the batches since the last dual step, which is free."""


def _option(default: Any, text: str, check: Callable[[Any], str | None] | None = None) -> Any:
    metadata = {"help": text, "check": check}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def _at_least(lowest: float, highest: float | None = None) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        fits = value is None or (math.isfinite(value) and lowest <= value <= (value if highest is None else highest))
        return None if fits else f"must be a number from {lowest} {'upwards' if highest is None else f'to {highest}'}"

    return check


def _above_zero(value: Any) -> str | None:
    return None if value is None or (math.isfinite(value) and value > 0) else "must be a number above 0"


def _between(low: float, high: float) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        values = value if isinstance(value, Sequence) else [value]
        fits = all(low < each < high for each in values)
        return None if fits else f"must be above {low} and below {high}"

    return check


def _device_name(value: str) -> str | None:
    return (
        None if re.fullmatch(r"cpu|mps|cuda(:\d+)?", value) else "must be cpu, cuda, mps, or cuda:N for one of several"
    )


def _part(value: float) -> str | None:
    return None if 0 < value <= 1 else "must be above 0 and at most 1"


def _one_of(allowed: Sequence[str]) -> Callable[[Any], str | None]:
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


def _precisions(value: Any) -> str | None:
    try:
        for each in value.values() if isinstance(value, Mapping) else value:
            Precision.parse(each)
    except InputError:
        return "must hold precisions: a number of bits from 1 to 8, 'w4a8', 'w4', 'a8' or 'full'"
    return None if value or isinstance(value, Mapping) else "must name at least one precision"


def _budget(value: str | None) -> str | None:
    try:
        if value is not None:
            Budget.parse(value)
    except InputError:
        return f"must be {BUDGET_FORM}"
    return None


def _tolerances(value: Mapping[str, float]) -> str | None:
    fits = all(math.isfinite(each) and each >= 0 for each in value.values())
    return None if fits else "must be numbers from 0 upwards"


@dataclass(frozen=True)
class TrainConfig:
    """One training run. Each field is a key of the TOML file and, with dashes, a flag of `pdqat train`."""

    data: str = _option("digits", f"data set: {', '.join(data.NAMES)}", _one_of(data.NAMES))
    data_path: str | None = _option(None, "archive or folder of the data; needed for 'folder'")
    image_size: int = _option(32, "height and width to which images of 'folder' are resized", _at_least(1))
    train_images: int | None = _option(None, "use only so many training images, for quick trials", _at_least(2))
    validation: float = _option(0.1, "part of the training images held out for validation", _between(0, 1))
    augment: bool = _option(True, "random flips and crops, as suits the data set")

    model: str = _option("preresnet-small", f"network: {', '.join(models.NAMES)}", _one_of(models.NAMES))
    width: int = _option(1, "factor on the number of channels", _at_least(1))
    init: str | None = _option(None, "start from the weights in this file (safetensors, torch, or a run's checkpoint)")
    carry: bool = _option(
        False, "take over the multipliers and low-precision norms of the run's checkpoint in init too"
    )

    bits: list[str] = _option(
        ["2"], "precision of each plan: 1 to 8, w4a8, w4, a8; several are trained at once", _precisions
    )
    layers: dict[str, str] = _option({}, "precision by layer name or pattern, for example head=8", _precisions)
    plan: dict[str, str] = _option(
        {}, "precision of each layer, as pdqat plan wrote it; takes the place of bits and layers", _precisions
    )
    budget: str | None = _option(
        None, "what the plan may use, such as '2.5 bits' or '40 KB': bits are chosen anew by the multipliers", _budget
    )
    budget_bits: list[str] = _option(list(CANDIDATES), "precisions to choose from under a budget", _precisions)
    replan: list[float] = _option(
        [0.3, 0.6], "parts of the epochs after which bits are chosen under the budget", _between(0, 1)
    )
    quantizer: str = _option("dorefa", f"quantiser: {', '.join(SCHEMES)}", _one_of(tuple(SCHEMES)))

    integer_sums: bool = _option(
        False, "round what residual additions add to 8 bits of one step, as deployment in integers needs it"
    )

    method: Method = _option(Method.PDQAT_LAYERS, "what to train")
    norm: NormChoice = _option(NormChoice.STE, "batch norms of a plan: ste, exact, or tied to the full-precision ones")
    gradient: GradientChoice = _option(GradientChoice.EXACT, "gradient of the output constraint through low precision")

    output_distance: OutputDistance = _option(OutputDistance.CROSS_ENTROPY, "distance of the two outputs")
    output_tolerance: float | None = _option(None, "tolerance of the output; without it 1/(2^bits - 1)", _at_least(0))
    level: Level = _option(Level.LAYER, "what the constraints below the output speak of")
    blocks: list[str] = _option([], "names of the blocks, for level 'block'")
    layer_distance: Distance = _option(Distance.RELATIVE, "distance of a layer's two sides")
    layer_tolerance: float | None = _option(
        None, "tolerance of layers; without it 1/(2^bits - 1), squared for the relative distance", _at_least(0)
    )
    tolerances: dict[str, float] = _option(
        {}, "tolerance by layer name or pattern, for example 'stages.2.*=0.3'", _tolerances
    )

    tolerance_price: float | None = _option(
        None,
        "let layer tolerances tune themselves: looser where the multiplier is above this price, tighter where below",
        _above_zero,
    )

    layer_sample: float = _option(
        0.25, "part of each batch, drawn at random, on which training estimates layer distances", _part
    )

    dual_rate: float = _option(0.01, "step size of the multipliers", _at_least(0))
    dual_rule: DualRule = _option(DualRule.ASCENT, "how multipliers follow slacks")
    dual_damping: float = _option(0.0, "proportional gain of nupi", _at_least(0))
    dual_nu: float = _option(
        0.0, "smoothing factor of nupi", lambda nu: None if 0 <= nu < 1 else "must be from 0 to below 1"
    )
    dual_every: int = _option(0, "steps between dual updates; 0 is once an epoch", _at_least(0))
    dual_slack: SlackSource = _option(SlackSource.RUNNING, "where a dual step takes its slacks from")
    dual_samples: int | None = _option(None, "training images for fresh slacks; without it all", _at_least(1))

    epochs: int = _option(100, "passes over the training images", _at_least(1))
    batch_size: int = _option(128, "images a step", _at_least(2))
    lr: float = _option(1e-3, "learning rate of Adam: the initial one, or the highest of one-cycle", _above_zero)
    schedule: Schedule = _option(Schedule.STEPS, "decay at milestones, or one-cycle: up in a line, down in a cosine")
    milestones: list[float] = _option(
        [0.5, 0.75, 0.9], "parts of the epochs after which the rate is decayed, for schedule steps", _between(0, 1)
    )
    decay: float = _option(0.1, "factor on the learning rate at a milestone", _above_zero)
    patience: int = _option(
        0, "stop after so many epochs without a better validation accuracy; 0 is never", _at_least(0)
    )
    seed: int = _option(0, "of the split, the order, the augmentation and the initial weights", _at_least(0, 2**32 - 1))
    device: str = _option("cpu", "where to train: cpu, cuda, cuda:1, mps", _device_name)
    threads: int | None = _option(None, "CPU threads; without it torch decides", _at_least(1, 1024))
    amp: bool = _option(False, "train in bfloat16 (autocast); losses, distances and evaluations stay in float32")
    compile: bool = _option(False, "compile training and evaluation with torch.compile")
    compile_fallback: bool = _option(False, "where torch.compile does not work, train without it instead of stopping")

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for each in dataclasses.fields(self):
            value = _typed(each.name, getattr(self, each.name), hints[each.name])
            object.__setattr__(self, each.name, value)
            check = each.metadata["check"]
            complaint = check(value) if check else None
            if complaint:
                raise InputError(f"{each.name} {complaint}, not {value!r}")
        _check_together(self)

    @property
    def replan_epochs(self) -> frozenset[int]:
        """The epochs, counted from 0, before which bits are chosen under the budget."""
        return frozenset(max(1, min(self.epochs - 1, round(part * self.epochs))) for part in self.replan)

    def budget_choices(self, layers: Iterable[str]) -> dict[str, list[Precision]]:
        """What each of these layers may be given under the budget; `layers` of the configuration stay as they are."""
        rules = {pattern: Precision.parse(bits) for pattern, bits in self.layers.items()}
        pinned = {pattern: bits for pattern, bits in rules.items() if bits.weight is not None}
        return choices(layers, [Precision.parse(bits) for bits in self.budget_bits], pinned)


PAPER_OUTPUT_TOLERANCES = {"8": 0.0039, "4": 0.1, "2": 0.7, "1": 0.9}
"""What Table 1 was made with."""

PRESETS: dict[str, dict[str, Any]] = {
    "quickstart": {
        "width": 2,
        "layer_tolerance": 0.1,
        "layer_sample": 1.0,
        "dual_rate": 0.03,
        "epochs": 60,
        "lr": 5e-3,
        "threads": 1,
    },
    "paper": {
        "data": "cifar10",
        "model": "preresnet20",
        "width": 5,
        "norm": "exact",
        "layer_distance": "squared",
        "layer_sample": 1.0,
        "dual_rate": 0.01,
        "dual_slack": "fresh",
        "epochs": 100,
        "batch_size": 128,
        "lr": 1e-3,
        "milestones": [0.5, 0.75, 0.9],
        "decay": 0.1,
    },
    "deployable": {"quantizer": "dorefa-int8", "integer_sums": True},
}


def resolve_config(preset: str | None, file: Mapping[str, Any], flags: Mapping[str, Any]) -> TrainConfig:
    """Defaults, then preset, then file, then flags. A file may name a preset too."""
    given = {**file, **flags}
    preset = preset or given.pop("preset", None)
    given.pop("preset", None)
    known = [each.name for each in dataclasses.fields(TrainConfig)]
    unknown = [key for key in given if key not in known]
    if unknown:
        raise InputError(f"unknown key {unknown[0]!r} in the configuration; the keys are preset, {', '.join(known)}")
    if preset is not None and preset not in list(PRESETS):
        raise InputError(f"unknown preset {preset!r}; choose one of {', '.join(PRESETS)}")
    values = {**(PRESETS[preset] if preset else {}), **given}
    config = TrainConfig(**values)
    if config.carry and config.init is None:
        raise InputError("carry takes over from the checkpoint in init, which is not given")
    if preset == "paper" and "output_tolerance" not in given and len(config.bits) == 1:
        return dataclasses.replace(
            config, output_tolerance=PAPER_OUTPUT_TOLERANCES.get(str(Precision.parse(config.bits[0])))
        )
    return config


def read_toml(path: Path) -> dict[str, Any]:
    """The keys of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"can't read the configuration {path}: {error}") from error


def to_toml(config: TrainConfig) -> str:
    """Every key that has a value."""
    values = {key: value for key, value in dataclasses.asdict(config).items() if value is not None}
    return tomli_w.dumps({key: str(value) if isinstance(value, StrEnum) else value for key, value in values.items()})


def _check_together(config: TrainConfig) -> None:
    if config.level is Level.BLOCK and not config.blocks and config.method is Method.PDQAT_LAYERS:
        raise InputError("level 'block' needs the names of the blocks, for example blocks = ['stages.0.0']")
    if config.tolerances and config.method is not Method.PDQAT_LAYERS:
        raise InputError(f"tolerances are of layers, which method {config.method.value!r} does not constrain")
    if config.tolerance_price is not None and config.method is not Method.PDQAT_LAYERS:
        raise InputError(
            f"tolerance_price is for tolerances of layers, which method {config.method.value!r} does not constrain"
        )
    if config.blocks and config.level is not Level.BLOCK:
        raise InputError(f"blocks are named, but level is {config.level.value!r}; set level to 'block'")
    pdqat = config.method in (Method.PDQAT_OUTPUT, Method.PDQAT_LAYERS)
    if config.quantizer == "lsq" and pdqat and config.gradient is GradientChoice.EXACT:
        raise InputError(
            "quantizer 'lsq' learns its step by a straight-through gradient: "
            "use method 'ste', or gradient 'straight-through'"
        )
    if config.plan and config.layers and config.budget is None:
        raise InputError("layers are given beside a plan that names each layer's precision; give one or the other")
    if config.budget is not None:
        _check_budget(config)
    if config.compile_fallback and not config.compile:
        raise InputError("compile_fallback is on, but compile is not; set both")
    if config.data == "folder" and config.data_path is None:
        raise InputError("data 'folder' needs data_path, the folder with train/ and test/ in it")


def _check_budget(config: TrainConfig) -> None:
    if config.method is not Method.PDQAT_LAYERS or config.level is not Level.LAYER:
        raise InputError(
            "a budget is spent by the multipliers of layers: it needs method 'pdqat-layers' and level 'layer', "
            f"not {config.method.value!r} and {config.level.value!r}"
        )
    if len(config.bits) > 1:
        raise InputError(f"a budget is for one plan, but bits are {', '.join(config.bits)}; give one to start with")
    if not SCHEMES[config.quantizer].any_bits:
        raise InputError(
            f"quantizer {config.quantizer!r} keeps a step size for its own bits, so others can't be tried; "
            f"a budget needs one of {', '.join(name for name, each in SCHEMES.items() if each.any_bits)}"
        )
    if any(Precision.parse(bits).weight is None for bits in config.budget_bits):
        raise InputError("budget_bits must be precisions with quantised weights: others leave no multiplier to go by")
    if config.epochs < 2 or not config.replan:
        raise InputError("under a budget there must be an epoch before bits are chosen and one after: epochs 2 or more")


def _typed(name: str, value: Any, hint: Any) -> Any:
    """The value in the field's type, or a sentence that says what the type is."""
    if get_origin(hint) in (Union, types.UnionType):
        return (
            None if value is None else _typed(name, value, next(arg for arg in get_args(hint) if arg is not type(None)))
        )
    if get_origin(hint) is list:
        if not isinstance(value, list | tuple):
            raise InputError(f"{name} must be a list, not {value!r}")
        return [_typed(name, each, get_args(hint)[0]) for each in value]
    if get_origin(hint) is dict:
        if not isinstance(value, Mapping):
            raise InputError(f"{name} must be a table of names and values, not {value!r}")
        return {key: _typed(f"{name}.{key}", each, get_args(hint)[1]) for key, each in value.items()}
    if issubclass(hint, StrEnum):
        if value not in list(hint):
            raise InputError(f"{name} must be one of {', '.join(hint)}, not {value!r}")
        return hint(value)
    if isinstance(value, int) and abs(value) >= 2**63:
        raise InputError(f"{name} is too large; whole numbers must be below 2^63")
    if hint is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        kinds = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        raise InputError(f"{name} must be {kinds[hint]}, not {value!r}")
    return value
