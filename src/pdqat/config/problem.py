"""From a configuration to the problem that it names: model, network and objective, built once."""

import dataclasses
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import models
from pdqat.config.loaders import Loaders
from pdqat.config.own_code import call_own, is_own
from pdqat.config.presets import config_of
from pdqat.config.train_config import Level, Method, TrainConfig
from pdqat.constraints import (
    BlockConstraint,
    ChannelConstraint,
    Constraint,
    LayerConstraint,
    LossConstraint,
    OutputConstraint,
    Tolerance,
)
from pdqat.dual_rules import DUAL_RULES, DualRule
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import Network, prepare
from pdqat.precision import MIXED, BitPlan, Precision
from pdqat.runs.checkpoints import load_checkpoint, load_plain_weights, load_weights
from pdqat.runs.folder import Run
from pdqat.task import Problem, TaskProblem
from pdqat.training.replanning import Replanning
from pdqat.training.state import with_state
from pdqat.training.warm_start import take_over


def problem_of(config: TrainConfig, loaders: Loaders) -> Problem:
    """The problem to train. Building it twice gives the same initial weights."""
    weights = Path(config.init) if config.init is not None else None
    model = model_of(config, loaders)
    if weights is not None:
        _load_into(model, load_weights(weights), f"the weights in {weights}")
    if loaders.dataset is not None:
        model.to(loaders.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    else:
        model.to(loaders.device)
    plan = [BitPlan(MIXED, {layer: Precision.parse(bits) for layer, bits in config.plan.items()})]
    net = prepare(
        model,
        loaders.example,
        plan if config.plan else config.bits,
        layers={} if config.plan else config.layers,
        ends=config.ends,
        quantizer=config.quantizer,
        tied_norms=config.tied_norms,
        integer_sums=config.integer_sums,
    )
    problem: Problem = objective_of(config, net, teacher_of(config, loaders)).to(loaders.device)
    replanning = replanning_of(config)
    if replanning is not None:
        problem = replanning.started(problem)
    if config.take_over and weights is not None:
        take_over(problem, load_checkpoint(weights), f"the checkpoint {weights}")
    return problem


def model_of(config: TrainConfig, loaders: Loaders) -> nn.Module:
    """The plain model with its initial weights."""
    torch.manual_seed(config.seed)
    dataset = loaders.dataset
    if not is_own(config.model):
        if dataset is None:
            raise InputError(
                f"the model {config.model!r} is made for images, and {config.data} gives loaders: name a model of own "
                "code too, with --model package.module:function"
            )
        channels, height, width = dataset.images.shape[1:]
        return models.build(config.model, config.width, len(dataset.classes), (channels, height, width))
    options: dict[str, Any] = {"width": config.width, "seed": config.seed}
    if dataset is not None:
        options |= {"classes": len(dataset.classes), "image_shape": tuple(dataset.images.shape[1:])}
    model = call_own(config.model, options)
    if not isinstance(model, nn.Module):
        raise InputError(f"{config.model} returned a {type(model).__name__}; it must return a torch.nn.Module")
    return model


def teacher_of(config: TrainConfig, loaders: Loaders) -> nn.Module | None:
    """The configured teacher in evaluation mode: the full-precision view of a run's best epoch, or this model."""
    if config.teacher is None:
        return None
    path = Path(config.teacher)
    if not path.exists():
        raise InputError(f"there is no teacher {path}, neither a run's folder nor a file of weights")
    if not path.is_dir():
        model = model_of(config, loaders)
        _load_into(model, load_plain_weights(path), f"the teacher's weights in {path}")
        return model.to(loaders.device).eval()
    run = Run.open(path)
    theirs = config_of(run)
    if (theirs.data, theirs.image_size) != (config.data, config.image_size):
        raise InputError(
            f"the teacher {path} was trained on {theirs.data} (image_size {theirs.image_size}), and this run is on "
            f"{config.data} (image_size {config.image_size}): give one of the same data"
        )
    if is_own(theirs.model):
        raise InputError(
            f"the teacher {path} is a run of own code, which a folder may not name: give a file of weights"
        )
    alone = dataclasses.replace(theirs, init=None, take_over=False, teacher=None, device=config.device)
    problem = with_state(problem_of(alone, loaders), load_checkpoint(run.best), f"the teacher's checkpoint {run.best}")
    return problem.net.eval()


def objective_of(config: TrainConfig, net: Network, teacher: nn.Module | None = None) -> Problem:
    """What the configured method minimises."""
    if not config.method.is_constrained:
        return TaskProblem(net, F.cross_entropy, low=config.method is Method.STE)
    constraints: list[Constraint] = [OutputConstraint(config.output_distance, config.output_tolerance)]
    if config.loss_tolerance is not None:
        constraints.append(LossConstraint(config.loss_tolerance))
    if config.method is Method.PDQAT_LAYERS:
        constraints.append(_below_output(config))
    return Lagrangian(
        net,
        F.cross_entropy,
        constraints,
        gradient=config.gradient,
        duals=dual_rule_of(config),
        objective=config.objective,
        teacher=teacher,
        layer_sample=config.layer_sample,
        view_sample=config.view_sample,
    )


def dual_rule_of(config: TrainConfig) -> DualRule:
    """The configured rule with its rate, and with damping and nu where it has them."""
    rule = DUAL_RULES[config.dual_rule]
    options: dict[str, Any] = {
        "rate": config.dual_rate,
        "restart": config.dual_restart,
        "damping": config.dual_damping,
        "nu": config.dual_nu,
    }
    fields = rule.__dataclass_fields__
    return rule(**{name: value for name, value in options.items() if name in fields and value is not None})


def replanning_of(config: TrainConfig) -> Replanning | None:
    """The configured budget."""
    if config.budget is None:
        return None
    return Replanning(config.budget, bits=config.budget_bits, at=config.replan, layers=config.layers)


def _below_output(config: TrainConfig) -> Constraint:
    tolerance: Tolerance = config.layer_tolerance
    if config.tolerances:
        tolerance = dict(config.tolerances)
        if config.layer_tolerance is not None:
            tolerance.setdefault("*", config.layer_tolerance)
    if config.level is Level.BLOCK:
        return BlockConstraint(config.layer_distance, tolerance, config.tolerance_price, blocks=tuple(config.blocks))
    kind = ChannelConstraint if config.level is Level.CHANNEL else LayerConstraint
    return kind(config.layer_distance, tolerance, config.tolerance_price)


def _load_into(model: nn.Module, weights: dict[str, Tensor], source: str) -> None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        complaint = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise InputError(f"{source} do not fit the model: {complaint}") from error
