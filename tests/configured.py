"""Runs of the command line, made from a configuration without its words and flags."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdqat.config.loaders import Loaders, loaders_of
from pdqat.config.presets import config_of
from pdqat.config.problem import problem_of
from pdqat.config.train_config import TrainConfig
from pdqat.config.training import trainer_of
from pdqat.runs.folder import Run
from pdqat.task import Problem
from pdqat.training.callbacks import Callback
from pdqat.training.trainer import Trainer


@dataclass(frozen=True)
class Built:
    """What a configuration names."""

    loaders: Loaders
    problem: Problem


def build(config: TrainConfig) -> Built:
    loaders = loaders_of(config)
    return Built(loaders, problem_of(config, loaders))


def create(path: Path, config: TrainConfig) -> Run:
    """A new run folder with its configuration in it."""
    return Run.create(path, lambda run: run.write_options(config.as_options()))


def trainer(run: Run, callbacks: Sequence[Callback] = ()) -> Trainer:
    """Of the run in a folder."""
    config = config_of(run)
    built = build(config)
    return trainer_of(run, config, built.loaders, built.problem, callbacks)


def train(path: Path, config: TrainConfig | None = None, callbacks: Sequence[Callback] = ()) -> Run:
    """Train the run in a folder: a new one for a configuration, else the one that is there."""
    run = Run.open(path) if config is None else create(path, config)
    trainer(run, callbacks).train()
    return run


SMALL: dict[str, Any] = {
    "train_images": 192,
    "batch_size": 64,
    "epochs": 2,
    "lr": 5e-3,
    "quantizer": "dorefa",
    "objective": "full",
    "gradient": "norms",
    "tied_norms": False,
    "view_sample": 1.0,
    "schedule": "steps",
    "norm_batches": 0,
    "output_tolerance": 0.3,
    "layer_distance": "relative",
    "layer_tolerance": 0.3,
    "layer_sample": 1.0,
    "dual_rate": 0.5,
    "dual_slack": "running",
}
"""Half a second: digits, a network of one block a stage, three steps an epoch."""


def small(**changes: Any) -> TrainConfig:
    """A small configuration with the given changes."""
    return TrainConfig(**{**SMALL, **changes})
