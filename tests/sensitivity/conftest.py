"""A small 2-bit run on the digits, trained once for all of these tests."""

from pathlib import Path
from typing import Any

import pytest

from pdqat.training import Run, TrainConfig, Trainer
from pdqat.training.setup import Setup


class Silent:
    """A watcher that looks away."""

    def start(self, epochs: int, steps: int, done: int) -> None: ...

    def step(self, epoch: int, step: int, objective: float) -> None: ...

    def epoch(self, entry: dict[str, Any]) -> None: ...


def trained(folder: Path, **changes: Any) -> Run:
    values: dict[str, Any] = {
        "train_images": 256,
        "batch_size": 64,
        "epochs": 3,
        "lr": 5e-3,
        "layer_tolerance": 0.2,
        "layer_sample": 1.0,
        "dual_rate": 0.5,
        **changes,
    }
    config = TrainConfig(**values)
    run = Run.create(folder, config)
    Trainer(run, Setup(config)).train(Silent())
    return run


@pytest.fixture(scope="session")
def relative_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("relative") / "run")


@pytest.fixture(scope="session")
def squared_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("squared") / "run", layer_distance="squared", layer_tolerance=0.001)


@pytest.fixture(scope="session")
def ste_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("ste") / "run", method="ste")
