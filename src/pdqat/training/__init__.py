"""Training as a run folder: configuration, trainer, checkpoints, metrics, summary."""

from pdqat.training.config import TrainConfig
from pdqat.training.run import Run
from pdqat.training.trainer import Trainer

__all__ = ["Run", "TrainConfig", "Trainer"]
