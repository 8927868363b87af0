"""Trains a plain module as the package trains a recipe with a warm start, for another library's layers.

The batches, the learning rate, the norm statistics and the choice of the best epoch are those of `pdqat.training`; what
turns the module low is given.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.batches import Batches, length_of, pairs, seed_pass
from pdqat.config.loaders import Loaders
from pdqat.config.problem import model_of
from pdqat.config.train_config import TrainConfig
from pdqat.config.training import settings_of
from pdqat.errors import InputError
from pdqat.layers.modes import evaluating
from pdqat.layers.norm_statistics import set_statistics
from pdqat.runs.checkpoints import load_checkpoint, save_checkpoint
from pdqat.runs.folder import Run
from pdqat.training.schedule import learning_rate

STATISTICS_STEPS = 300
"""Brevitas' default, or the first epoch but one step where that is shorter: what it counts is not in a checkpoint."""

Quantize = Callable[[nn.Module, int, int], nn.Module]
"""Of the model, its bits and the steps for statistics: see `brevitas_network`."""


class Training:
    """A plain module, first in float, then quantised, with a checkpoint after every epoch."""

    def __init__(self, run: Run, config: TrainConfig, loaders: Loaders, quantize: Quantize) -> None:
        self._run, self._config, self._loaders, self._quantize = run, config, loaders, quantize
        self._settings = settings_of(config)
        steps = length_of(loaders.training)
        assert steps, "batches of images know their number"
        self._steps = steps
        self.model = model_of(config, loaders).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._optimizer = torch.optim.Adam(self.model.parameters(), config.lr)
        self.epoch, self.seconds = 0, 0.0
        self.best: dict[str, Any] = {"epoch": 0, "score": None}
        if run.last.exists():
            self._restore(load_checkpoint(run.last))

    def train(self, say: Callable[[str], None]) -> None:
        """All epochs that are left; the model then has the state of the best one."""
        while self.epoch < self._settings.epochs:
            started = time.perf_counter()
            if self.epoch == self._settings.warm_epochs:
                self._turn_low()
            self._train_epoch()
            is_low = self.epoch > self._settings.warm_epochs
            if is_low and self._config.norm_batches:
                seed_pass(self._loaders.training, ~self._settings.epoch_seed(self.epoch))
                estimate_norms(self.model, self._loaders.training, self._config.norm_batches)
            score = accuracy(self.model, self._loaders.validation)
            self.seconds += time.perf_counter() - started
            self._save(score, is_low)
            say(f"epoch {self.epoch} of {self._settings.epochs}: {100 * score:.2f} % of the validation images")
        self.model.load_state_dict(load_checkpoint(self._run.best)["model"])

    def _train_epoch(self) -> None:
        seed_pass(self._loaders.training, self._settings.epoch_seed(self.epoch))
        self.model.train()
        for step, (inputs, target) in enumerate(pairs(self._loaders.training)):
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate(self._settings, self.epoch + step / self._steps)
            self._optimizer.zero_grad()
            F.cross_entropy(self.model(inputs), target).backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
        self.epoch += 1

    def _turn_low(self) -> None:
        """Quantise; the optimiser goes on with what it knows of the parameters that stay."""
        known = {name: self._optimizer.state.get(parameter) for name, parameter in self.model.named_parameters()}
        steps = max(1, min(STATISTICS_STEPS, self._steps - 1))
        self.model = self._quantize(self.model, int(self._config.bits[0]), steps)
        self._optimizer = torch.optim.Adam(self.model.parameters(), self._config.lr)
        for name, parameter in self.model.named_parameters():
            if known.get(name):
                self._optimizer.state[parameter] = known[name]
        self.best = {"epoch": self.epoch, "score": None}

    def _save(self, score: float, is_low: bool) -> None:
        is_best = self.best["score"] is None or score > self.best["score"]
        if is_best:
            self.best = {"epoch": self.epoch, "score": score}
        state = {
            "format": 1,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "best": self.best,
            "model": self.model.state_dict(),
            "duals": {},
            "options": self._config.as_options(),
        }
        if is_best and is_low:
            save_checkpoint(self._run.best, state)
        save_checkpoint(self._run.last, {**state, "optimizer": self._optimizer.state_dict()})

    def _restore(self, state: dict[str, Any]) -> None:
        if state.get("options") != self._config.as_options():
            raise InputError(f"{self._run.path} holds another training than this one: remove it to train it again")
        if state["epoch"] > self._settings.warm_epochs:
            self._turn_low()
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.seconds, self.best = state["epoch"], state["seconds"], state["best"]


def estimate_norms(model: nn.Module, batches: Batches, number: int) -> None:
    """Set the statistics of norms to their mean over so many batches, as the package does for its own views."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    set_statistics(model, norms, model, batches, number)


@torch.no_grad()
def accuracy(model: nn.Module, batches: Batches) -> float:
    """The part of the samples whose class is found."""
    right = samples = 0
    with evaluating(model):
        for inputs, target in pairs(batches):
            right += int((model(inputs).argmax(1) == target).sum())
            samples += len(target)
    return right / samples
