"""TrainConfig: what a run of the command line depends on, typed, validated once, written back into the run folder.

Its defaults are the recipe of the most accuracy in low precision that has been measured, `--preset best`.
"""

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, get_type_hints

from pdqat.allocation.choices import CANDIDATES
from pdqat.config import options, words
from pdqat.config.options import option
from pdqat.config.own_code import named_or_own
from pdqat.errors import InputError
from pdqat.precision import Precision


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

    @property
    def is_constrained(self) -> bool:
        """Whether it has multipliers."""
        return self in (Method.PDQAT_OUTPUT, Method.PDQAT_LAYERS)


OF_CONSTRAINTS = (
    *("objective", "gradient", "output_distance", "output_tolerance", "loss_tolerance", "teacher", "level", "blocks"),
    *("layer_distance", "layer_tolerance", "tolerances", "tolerance_price", "layer_sample", "view_sample"),
    *("dual_rule", "dual_rate", "dual_damping", "dual_nu", "dual_restart", "dual_every", "dual_slack", "dual_samples"),
)
"""Options that mean nothing to a method without constraints."""


class Level(StrEnum):
    """What a constraint below the output speaks of."""

    LAYER = "layer"
    CHANNEL = "channel"
    BLOCK = "block"


class SlackSource(StrEnum):
    """Where the slacks of a dual step come from."""

    FRESH = "fresh"
    """An evaluation pass over training images."""
    RUNNING = "running"
    """The mean over the batches since the last dual step, which is free."""


@dataclass(frozen=True)
class TrainConfig:
    """One training run. Each field is a key of the TOML file and, with dashes, a flag of `pdqat train`."""

    data: str = option(
        "digits",
        f"data set: {', '.join(words.DATA)}, or an own function as package.module:function",
        named_or_own(words.DATA),
    )
    data_path: str | None = option(None, "archive or folder of the data; needed for 'folder'", options.file_name)
    image_size: int = option(
        32,
        "height and width to which images of 'folder' are resized, and those of CIFAR averaged: a divisor of 32",
        options.at_least(1),
    )
    train_images: int | None = option(None, "use only so many training images, for quick trials", options.at_least(2))
    validation: float = option(0.1, "part of the training images held out for validation", options.between(0, 1))
    augment: bool = option(True, "random flips and crops, as suits the data set")
    normalize: bool = option(
        True, "give images mean 0 and deviation 1; without it they lie from 0 to 1, where 8 bits hold them exactly"
    )

    model: str = option(
        "preresnet-small",
        f"network: {', '.join(words.MODELS)}, or an own function as package.module:function",
        named_or_own(words.MODELS),
    )
    width: int = option(1, "factor on the number of channels", options.at_least(1))
    init: str | None = option(
        None, "start from the weights in this file (safetensors, torch, or a run's checkpoint)", options.file_name
    )
    take_over: bool = option(
        False, "take over the multipliers and low-precision norms of the run's checkpoint in init too"
    )

    bits: list[str] = option(
        ["2"], "precision of each plan: 1 to 8, w4a8, w4, a8; several are trained at once", options.precisions
    )
    layers: dict[str, str] = option({}, "precision by layer name or pattern, for example head=8", options.precisions)
    ends: str = option("full", "precision of first and last layers that no rule names", options.precision)
    plan: dict[str, str] = option(
        {}, "precision of each layer, as pdqat plan wrote it; takes the place of bits and layers", options.precisions
    )
    budget: str | None = option(
        None,
        "what the plan may use, such as '2.5 bits', '12.5 %' of float32 or '40 KB': bits are chosen anew by the "
        "multipliers",
        options.budget,
    )
    budget_bits: list[str] = option(list(CANDIDATES), "precisions to choose from under a budget", options.precisions)
    replan: list[float] = option(
        [0.3, 0.6], "parts of the epochs after which bits are chosen under the budget", options.between(0, 1)
    )
    quantizer: str = option("normal", "quantiser; for the methods full and ste dorefa", one_of=words.QUANTIZERS)

    integer_sums: bool = option(
        False,
        "round what residual additions and means of images add up to 8 bits of one step, as deployment in integers "
        "needs it",
    )

    method: Method = option(Method.PDQAT_LAYERS, "what to train")
    objective: str = option(
        "low",
        "whose task loss is minimised: full precision's, or low precision's, with full precision to stay close to; "
        "full where no gradient goes through rounding",
        one_of=words.OBJECTIVES,
    )
    gradient: str = option(
        "straight-through",
        "what the gradient of the output constraint may reach through low precision",
        one_of=words.GRADIENTS,
    )
    tied_norms: bool = option(
        True,
        "let batch norms of a plan share the affine parameters of the full-precision ones; not for the objective full",
    )

    output_distance: str = option("kl", "distance of the two outputs", one_of=words.OUTPUT_DISTANCES)
    output_tolerance: float | None = option(
        None, "tolerance of the output; without it 1/(2^bits - 1), squared for kl and cosine", options.at_least(0)
    )
    loss_tolerance: float | None = option(
        None, "constrain the task loss of low precision too, to at most this", options.at_least(0)
    )
    teacher: str | None = option(
        None,
        "hold outputs to those of a trained network: the folder of a run, or a file of this model's weights",
        options.file_name,
    )
    level: Level = option(Level.LAYER, "what the constraints below the output speak of")
    blocks: list[str] = option([], "names of the blocks, for level 'block'")
    layer_distance: str = option("relative", "distance of a layer's two sides", one_of=words.LAYER_DISTANCES)
    layer_tolerance: float | None = option(
        None, "tolerance of layers; without it 1/(2^bits - 1), squared for the relative distance", options.at_least(0)
    )
    tolerances: dict[str, float] = option(
        {}, "tolerance by layer name or pattern, for example 'stages.2.*=0.3'", options.tolerances
    )

    tolerance_price: float | None = option(
        None,
        "let layer tolerances tune themselves: looser where the multiplier is above this price, tighter where below",
        options.above_zero,
    )

    layer_sample: float = option(
        0.25, "part of each batch, drawn at random, on which training estimates layer distances", options.part
    )

    view_sample: float = option(
        0.25,
        "part of each batch, drawn at random, on which training computes the view that is not the objective; all of it "
        "for the objective full",
        options.part,
    )

    dual_rule: str = option("ascent", "how multipliers follow slacks", one_of=words.DUAL_RULES)
    dual_rate: float = option(0.1, "step size of the multipliers; for multiplicative 0.5", options.at_least(0))
    dual_damping: float = option(0.0, "proportional gain of nupi", options.at_least(0))
    dual_nu: float = option(
        0.0, "smoothing factor of nupi", lambda nu: None if 0 <= nu < 1 else "must be from 0 to below 1"
    )
    dual_restart: bool = option(False, "let a multiplier go back to 0 once its constraint is met")
    dual_every: int = option(0, "steps between dual updates; 0 is once an epoch", options.at_least(0))
    dual_slack: SlackSource = option(SlackSource.RUNNING, "where a dual step takes its slacks from")
    dual_samples: int | None = option(None, "training images for fresh slacks; without it all", options.at_least(1))

    epochs: int = option(100, "passes over the training images", options.at_least(1))
    batch_size: int = option(128, "images a step", options.at_least(2))
    optimizer: str = option(
        "muon",
        "what takes the steps: muon, for weights that a batch norm follows, and Adam for all else; or adam; for the "
        "method ste adam",
        one_of=words.OPTIMIZERS,
    )
    lr: float = option(1e-2, "learning rate: the initial one, or the highest of one-cycle", options.above_zero)
    schedule: str = option(
        "one-cycle", "decay at milestones, or one-cycle: up in a line, down in a cosine", one_of=words.SCHEDULES
    )
    milestones: list[float] = option(
        [0.5, 0.75, 0.9],
        "parts of the epochs after which the rate is decayed, for schedule steps",
        options.between(0, 1),
    )
    decay: float = option(0.1, "factor on the learning rate at a milestone", options.above_zero)
    accumulate: int = option(1, "batches whose gradients make one step of the weights", options.at_least(1))
    clip_norm: float | None = option(
        None, "largest norm that a gradient may have; longer ones are shortened", options.above_zero
    )
    warm_up: float = option(
        0.0,
        "part of the epochs, at first, in full precision alone; low precision then starts from there",
        lambda part: None if 0 <= part < 1 else "must be from 0 to below 1",
    )
    progressive: list[str] = option(
        [],
        "precisions to train under before the plan's own, from the highest down, in equal parts of the epochs",
        lambda bits: options.precisions(bits) if bits else None,
    )
    flip_rate: float | None = option(
        None,
        "part of the quantised weights whose codes may change in a step, at first; the limit goes down to 0 at the end",
        options.part,
    )
    norm_batches: int = option(
        20,
        "training batches on which low-precision norms are estimated anew before each validation; 0 keeps running ones",
        options.at_least(0),
    )
    patience: int = option(
        0, "stop after so many epochs without a better validation accuracy; 0 is never", options.at_least(0)
    )
    seed: int = option(
        0, "of the split, the order, the augmentation and the initial weights", options.at_least(0, 2**32 - 1)
    )
    device: str = option("cpu", "where to train: cpu, cuda, cuda:1, mps", options.device_name)
    threads: int | None = option(None, "CPU threads; without it torch decides", options.at_least(1, 1024))
    amp: bool = option(False, "train in bfloat16 (autocast); losses, distances and evaluations stay in float32")
    compile: bool = option(False, "compile training and evaluation with torch.compile")
    compile_fallback: bool = option(False, "where torch.compile does not work, train without it instead of stopping")
    sync_norms: bool = option(
        True, "in several processes (torchrun), take the statistics of batch norms from all shares of a batch"
    )

    log: list[str] = option(
        [],
        f"trackers to log the training to, each an extra of its name: {', '.join(words.TRACKERS)}",
        options.all_among(words.TRACKERS),
        repeated=True,
    )

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value = options.typed(field.name, getattr(self, field.name), hints[field.name])
            object.__setattr__(self, field.name, value)
            check = field.metadata["check"]
            complaint = check(value) if check else None
            if complaint:
                raise InputError(f"{field.name} {complaint}, not {value!r}")
        _check_together(self)

    def as_options(self) -> dict[str, Any]:
        """Every key that has a value, as plain values for a TOML file."""
        values = {key: value for key, value in dataclasses.asdict(self).items() if value is not None}
        return {key: str(value) if isinstance(value, StrEnum) else value for key, value in values.items()}


def _check_together(config: TrainConfig) -> None:
    if config.level is Level.BLOCK and not config.blocks and config.method is Method.PDQAT_LAYERS:
        raise InputError("level 'block' needs the names of the blocks, for example blocks = ['stages.0.0']")
    if config.tolerances and config.method is not Method.PDQAT_LAYERS:
        raise InputError(f"tolerances are of layers, which method {config.method.value!r} does not constrain")
    if config.tolerance_price is not None and config.method is not Method.PDQAT_LAYERS:
        raise InputError(
            f"tolerance_price is for tolerances of layers, which method {config.method.value!r} does not constrain"
        )
    for name in ("teacher", "loss_tolerance"):
        if getattr(config, name) is not None and not config.method.is_constrained:
            raise InputError(f"{name} is of constrained training, which method {config.method.value!r} is not")
    if config.blocks and config.level is not Level.BLOCK:
        raise InputError(f"blocks are named, but level is {config.level.value!r}; set level to 'block'")
    if (
        config.quantizer in ("lsq", "dorefa-lsq")
        and config.method.is_constrained
        and config.gradient != "straight-through"
    ):
        raise InputError(
            f"quantizer {config.quantizer!r} learns its step by a straight-through gradient: "
            "use method 'ste', or gradient 'straight-through'"
        )
    if config.objective == "low" and config.method.is_constrained and config.gradient != "straight-through":
        raise InputError("objective 'low' trains through rounding: it needs gradient 'straight-through'")
    if config.plan and config.method is Method.FULL:
        raise InputError(
            "a plan is given, but method 'full' trains in full precision only; give another, such as 'pdqat-layers'"
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
    if any(not Precision.parse(bits).weight for bits in config.budget_bits):
        raise InputError("budget_bits must be precisions with quantised weights: others leave no multiplier to go by")
    if config.epochs < 2 or not config.replan:
        raise InputError("under a budget there must be an epoch before bits are chosen and one after: epochs 2 or more")
