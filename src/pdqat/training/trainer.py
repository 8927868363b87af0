"""Algorithm 1 on a run folder: primal steps on batches, dual ascent on slacks, validation, checkpoints.

Whatever is random in an epoch follows from the seed and the epoch's number, and a checkpoint holds all other state, so
a run that was stopped anywhere and continued ends with the numbers of one that was not.
"""

import time
from typing import Any, Protocol

import torch
from torch import Tensor

from pdqat.allocation.budget import Budget
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.training.checkpoints import load_checkpoint, save_checkpoint
from pdqat.training.config import Method, SlackSource
from pdqat.training.evaluation import Evaluation, evaluate
from pdqat.training.process import check_compiler
from pdqat.training.run import Run
from pdqat.training.schedule import learning_rate
from pdqat.training.setup import Setup
from pdqat.training.summary import constraint_entries, summarize

STEPS_BETWEEN_REPORTS = 10


class Watcher(Protocol):
    """Is told how training goes."""

    def start(self, epochs: int, steps: int, done: int) -> None:
        """Training begins: `done` of `epochs` epochs, of `steps` steps each, are behind it."""

    def step(self, epoch: int, step: int, objective: float) -> None:
        """Some steps of an epoch are done; `objective` is the mean of what was minimised in it so far."""

    def epoch(self, entry: dict[str, Any]) -> None:
        """An epoch is done; `entry` is its line of the metrics."""


class Trainer:
    """Trains one run, from its last checkpoint if there is one."""

    def __init__(self, run: Run, setup: Setup) -> None:
        self.run = run
        self.setup = setup
        self.config = config = setup.config
        self.compile_problem: str | None = None
        """Why the run is not compiled although it was asked for."""
        if config.compile:
            self._try_compiler()
        self.epoch = 0
        self.seconds = 0.0
        self.best: dict[str, Any] = {"epoch": 0, "accuracy": -1.0}
        self.metrics: list[dict[str, Any]] = []
        checkpoint = load_checkpoint(run.last) if run.last.exists() else None
        if checkpoint is not None:
            setup.load(checkpoint, run.last)
        else:
            setup.check_budget()
        self._take_objective()
        if checkpoint is not None:
            self._restore(checkpoint)

    def _take_objective(self) -> None:
        """From the setup, which makes another one for another plan."""
        self.objective = self.setup.objective
        self.optimizer = torch.optim.Adam(self.setup.net.parameters(), lr=self.config.lr)
        compiled = self.config.compile and self.compile_problem is None
        self.step_value = torch.compile(self.objective, fullgraph=True, dynamic=False) if compiled else self.objective
        self.terms = torch.compile(self.objective.terms, fullgraph=True, dynamic=False) if compiled else None

    def train(self, watcher: Watcher) -> dict[str, Any]:
        """Train to the end and return the summary, which is also written into the run folder."""
        watcher.start(self.config.epochs, len(self.setup.training_batches(0)), self.epoch)
        while self.epoch < self.config.epochs and not self._out_of_patience():
            started = time.perf_counter()
            chosen: dict[str, Any] = {}
            if self.config.budget is not None and self.epoch in self.config.replan_epochs:
                chosen = {"bits_chosen_by": self._replan(Budget.parse(self.config.budget))}
            entry = {**self._train_epoch(watcher), **chosen}
            self.seconds += time.perf_counter() - started
            self._save(entry)
            watcher.epoch(entry)
        best = load_checkpoint(self.run.best)
        self.setup.load(best, self.run.best)
        summary = summarize(self.setup, best["epoch"], self.epoch, self.seconds, self.terms is not None)
        self.run.write_summary(summary)
        return summary

    def _try_compiler(self) -> None:
        try:
            check_compiler()
        except InputError as error:
            if not self.config.compile_fallback:
                raise
            self.compile_problem = str(error)

    def _replan(self, budget: Budget) -> str:
        """Choose bits anew and say what by; what was best under another plan no longer counts."""
        from pdqat.allocation.replan import choose_plan  # here, because choosing stands on training
        from pdqat.sensitivity.subject import Subject

        found, by = choose_plan(Subject(self.run, self.setup, self.metrics), budget)
        if any(self.setup.plan[layer] != bits for layer, bits in found.precisions.items()):
            optimizer = self.optimizer.state_dict()
            self.setup.change_plan(found.precisions)
            if self.terms is not None:
                torch.compiler.reset()  # else every plan would count towards torch's limit of versions of one function
            self._take_objective()
            self.optimizer.load_state_dict(optimizer)
            self.best = {"epoch": self.epoch, "accuracy": -1.0}
        return by

    def _train_epoch(self, watcher: Watcher) -> dict[str, Any]:
        config = self.config
        torch.manual_seed(self.setup.epoch_seed(self.epoch))
        batches = self.setup.training_batches(self.epoch)
        self.objective.train()
        values: list[Tensor] = []
        for step, (inputs, target) in enumerate(batches, start=1):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(config, self.epoch + (step - 1) / len(batches))
            self.optimizer.zero_grad()
            with torch.autocast(inputs.device.type, torch.bfloat16, enabled=config.amp):
                value = self.step_value(inputs, target)
            value.backward()
            self.optimizer.step()
            values.append(value.detach())
            if config.dual_every and (self.epoch * len(batches) + step) % config.dual_every == 0:
                self._dual_step()
            if step % STEPS_BETWEEN_REPORTS == 0 or step == len(batches):
                watcher.step(self.epoch + 1, step, self._mean(values))
        if not config.dual_every:
            self._dual_step()
        self.epoch += 1
        measured = evaluate(self.objective, self.setup.validation_batches(), self.terms)
        self._check_finite(measured)
        return {
            "epoch": self.epoch,
            "lr": learning_rate(config, self.epoch - 1),
            "objective": self._mean(values),
            "loss": measured.loss,
            "accuracy": measured.accuracy,
            "constraints": constraint_entries(self.objective, measured.distances),
            **self._plan(),
        }

    def _plan(self) -> dict[str, Any]:
        """The plan of a run that changes it."""
        return {} if self.config.budget is None else {"plan": self.setup.plan.as_text()}

    def _dual_step(self) -> None:
        """One step of the multipliers, on fresh slacks or on the running mean."""
        objective = self.objective
        if not isinstance(objective, Lagrangian):
            return
        if self.config.dual_slack is SlackSource.FRESH:
            distances = evaluate(objective, self.setup.slack_batches(self.epoch), self.terms).distances
            objective.distance_sum.copy_(distances)
            objective.samples.fill_(1)
        objective.dual_step()

    def _mean(self, values: list[Tensor]) -> float:
        """Of the epoch so far; values are looked at now and then only, since that waits for the device."""
        stacked = torch.stack(values)
        finite = torch.isfinite(stacked)
        if not bool(finite.all()):
            step = int((~finite).nonzero()[0]) + 1
            raise InputError(f"the loss is not a number at epoch {self.epoch + 1}, step {step}; {self._kept()}")
        return float(stacked.mean())

    def _check_finite(self, measured: Evaluation) -> None:
        """The last step of an epoch may have spoilt what the losses of its steps don't show yet."""
        found = {"the validation loss": torch.tensor(measured.loss)}
        if isinstance(self.objective, Lagrangian):
            named = self.objective.duals.named
            found |= {f"the distance of {name}": part for name, part in named(measured.distances).items()}
            found |= {f"the multiplier of {name}": part for name, part in named().items()}
        for what, values in found.items():
            if not bool(torch.isfinite(values).all()):
                raise InputError(f"{what} is not a number after epoch {self.epoch}; {self._kept()}")

    def _kept(self) -> str:
        kept = f"{self.run.last} holds the state after epoch {len(self.metrics)}; " if self.metrics else ""
        return f"{kept}a smaller learning rate may help"

    def _chosen_accuracy(self, accuracy: dict[str, float]) -> float:
        """The mean over the low-precision views, or the full-precision one where only that is trained."""
        low = [value for view, value in accuracy.items() if view != "full"]
        return sum(low) / len(low) if self.config.method is not Method.FULL else accuracy["full"]

    def _out_of_patience(self) -> bool:
        if self.config.budget is not None and self.epoch <= max(self.config.replan_epochs):
            return False
        return bool(self.config.patience) and self.epoch - self.best["epoch"] >= self.config.patience

    def _save(self, entry: dict[str, Any]) -> None:
        """Metrics and best first, last at the end: what `last` says is done is on disk."""
        self.metrics.append(entry)
        self.run.write_metrics(self.metrics)
        accuracy = self._chosen_accuracy(entry["accuracy"])
        if accuracy > self.best["accuracy"]:
            self.best = {"epoch": self.epoch, "accuracy": accuracy}
            save_checkpoint(self.run.best, self._state())
        save_checkpoint(self.run.last, {**self._state(), "optimizer": self.optimizer.state_dict()})

    def _state(self) -> dict[str, Any]:
        state = self.objective.state_dict()
        return {
            "format": 1,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "best": self.best,
            "model": self.setup.net.state_dict(),
            "duals": {key: value for key, value in state.items() if not key.startswith("net.")},
            **self._plan(),
        }

    def _restore(self, checkpoint: dict[str, Any]) -> None:
        try:
            self.optimizer.load_state_dict(checkpoint["optimizer"])
            self.epoch, self.seconds, self.best = (checkpoint[key] for key in ("epoch", "seconds", "best"))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise InputError(f"the checkpoint {self.run.last} does not fit the run's configuration") from error
        self.metrics = self.run.metrics()[: self.epoch]
        if len(self.metrics) < self.epoch:
            raise InputError(
                f"{self.run.metrics_file} ends with epoch {len(self.metrics)}, "
                f"but {self.run.last} holds the state after epoch {self.epoch}"
            )
        load_checkpoint(self.run.best)  # needed at the end: say now if it is lost
