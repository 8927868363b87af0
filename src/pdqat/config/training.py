"""The trainer of a run of the command line."""

import dataclasses
from collections.abc import Sequence

from pdqat.config.loaders import Loaders
from pdqat.config.problem import replanning_of
from pdqat.config.train_config import TrainConfig
from pdqat.runs.folder import Run
from pdqat.task import Problem
from pdqat.training.callbacks import Callback
from pdqat.training.settings import Settings
from pdqat.training.store import FolderStore
from pdqat.training.trainer import Trainer


def trainer_of(
    run: Run, config: TrainConfig, loaders: Loaders, problem: Problem, callbacks: Sequence[Callback] = ()
) -> Trainer:
    """Trains the problem into the run folder, from its last checkpoint if there is one."""
    return Trainer(
        problem,
        loaders.training,
        loaders.validation,
        settings_of(config),
        test=loaders.test,
        slack_batches=loaders.slacks,
        replanning=replanning_of(config),
        store=FolderStore(run),
        callbacks=callbacks,
        method=config.method.value,
    )


def settings_of(config: TrainConfig) -> Settings:
    """How long, how fast and with what a configuration trains."""
    return Settings(**{field.name: getattr(config, field.name) for field in dataclasses.fields(Settings)})
