"""Runs of about a second: digits, a network of one block a stage, few images."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pdqat.training import Run, TrainConfig, Trainer
from pdqat.training.setup import Setup
from pdqat.training.trainer import Watcher


class Silent:
    """A watcher that looks away."""

    def start(self, epochs: int, steps: int, done: int) -> None: ...

    def step(self, epoch: int, step: int, objective: float) -> None: ...

    def epoch(self, entry: dict[str, Any]) -> None: ...


@pytest.fixture
def small() -> Callable[..., TrainConfig]:
    """The configuration of a run of three steps an epoch, with the given changes."""
    values: dict[str, Any] = {
        "train_images": 192,
        "batch_size": 64,
        "epochs": 2,
        "lr": 5e-3,
        "norm": "ste",
        "gradient": "exact",
        "output_tolerance": 0.3,
        "layer_distance": "relative",
        "layer_tolerance": 0.3,
        "layer_sample": 1.0,
        "dual_rate": 0.5,
        "dual_slack": "running",
    }

    def make(**changes: Any) -> TrainConfig:
        return TrainConfig(**{**values, **changes})

    return make


@pytest.fixture
def train() -> Callable[..., Run]:
    """Trains the run in a folder: a new one for a configuration, else the one that is there."""

    def go(path: Path, config: TrainConfig | None = None, watcher: Watcher | None = None) -> Run:
        run = Run.open(path) if config is None else Run.create(path, config)
        Trainer(run, Setup(run.config())).train(watcher or Silent())
        return run

    return go
