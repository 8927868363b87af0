"""The one trainer: a problem and batches in, a trained problem and its history out."""

from pdqat.training.fit import fit
from pdqat.training.history import History
from pdqat.training.trainer import Trainer

__all__ = ["History", "Trainer", "fit"]
