"""Algorithm 1 on a problem and batches: primal steps, dual ascent on slacks, validation, the best and the last state.

Whatever is random in an epoch follows from the seed and the epoch's number, and the last state holds all else, so a
training that was stopped anywhere and continued ends with the numbers of one that was not.
"""

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from pdqat.batches import Batches, check_repeatable, length_of, seed_pass
from pdqat.distributed import from_first, is_first, processes, shares
from pdqat.errors import InputError
from pdqat.evaluation import Evaluation, evaluate
from pdqat.lagrangian import Lagrangian
from pdqat.layers.norm_statistics import estimate_statistics
from pdqat.metric import Metric, MetricLike
from pdqat.process import check_compiler
from pdqat.task import Problem, TaskProblem, check_numbers, trains_low
from pdqat.training.callbacks import Callback
from pdqat.training.descent import Descent, OptimizerLike, SchedulerLike
from pdqat.training.finite import check_finite, check_steps, mean_objective
from pdqat.training.flat_inputs import flat_inputs
from pdqat.training.history import History
from pdqat.training.replanning import Replanning
from pdqat.training.settings import Schedule, Settings
from pdqat.training.stages import Stages
from pdqat.training.state import STRANGER_ERRORS, state_of, with_state
from pdqat.training.store import FirstStore, MemoryStore, Store
from pdqat.training.summary import summarize

STEPS_BETWEEN_REPORTS = 10


class Trainer:
    """Trains one problem, from the store's last state if there is one. `fit` says what each argument is."""

    def __init__(
        self,
        problem: Problem,
        batches: Batches,
        validation: Batches,
        settings: Settings,
        *,
        test: Batches | None = None,
        metric: MetricLike | None = None,
        slack_batches: Batches | None = None,
        optimizer: OptimizerLike | None = None,
        scheduler: SchedulerLike | None = None,
        scheduler_every: str = "epoch",
        replanning: Replanning | None = None,
        store: Store | None = None,
        callbacks: Sequence[Callback] = (),
        method: str = "",
    ) -> None:
        check_repeatable(batches, "batches")
        check_repeatable(validation, "validation")
        for name, loader in (("test", test), ("slack_batches", slack_batches)):
            if loader is not None:
                check_repeatable(loader, name)
        self._stages = Stages(problem, settings, replanning)
        if self._stages.change_plans and isinstance(optimizer, Optimizer):
            raise InputError(
                "bits that change on the way make new parameters: give the optimizer as a function of parameters, such "
                "as lambda parameters: torch.optim.SGD(parameters, 0.1)"
            )
        self.settings = settings
        self.compile_problem: str | None = None
        """Why the training is not compiled although it was asked for."""
        if settings.compile and processes() > 1:
            raise InputError(f"compile is for one process, and there are {processes()}: train without it")
        if settings.compile:
            self._try_compiler()
        self._batches, self._validation, self._test, self._slack_batches = batches, validation, test, slack_batches
        self._steps = length_of(batches)
        if self._steps is None and settings.schedule is Schedule.ONE_CYCLE:
            raise InputError(
                "the schedule 'one-cycle' needs to know how many batches an epoch has: give a sized loader, or the "
                "schedule 'steps'"
            )
        self._metric: MetricLike | None = metric
        self._by = optimizer, scheduler, scheduler_every
        self._store: Store = FirstStore(MemoryStore() if store is None else store)
        self._callbacks = tuple(callbacks) if is_first() else ()
        self._method = method or _method_of(problem)
        self.epoch = 0
        self.seconds = 0.0
        self._batches_done = 0
        self.best: dict[str, Any] = {"epoch": 0, "score": None}
        self.metrics: list[dict[str, Any]] = []
        checkpoint = self._store.last()
        if checkpoint is None:
            check_numbers(problem, "the problem to train")
            self._stages.begin()
        else:
            self._stages.go_on(checkpoint, f"the checkpoint {self._store.where()}")
            self.epoch = checkpoint["epoch"]
        self._compiled = settings.compile and self.compile_problem is None
        self._trained = self._stages.trained(self.epoch)
        self._descent = self._new_descent()
        if checkpoint is not None:
            self._restore(checkpoint)

    def train(self) -> History:
        """Train to the end: the problem then has the state of the best epoch."""
        from_first(self._start)
        while self.epoch < self.settings.epochs and not self._is_out_of_patience():
            started = time.perf_counter()
            notes = self._enter_stage()
            entry = {**self._train_epoch(), **notes}
            self.seconds += time.perf_counter() - started
            self._save(entry)
            for callback in self._callbacks:
                callback.epoch(entry)
                callback.state(self._trained, self.metrics)
        best = self._store.best()
        problem = with_state(self._stages.problem, best, "the state of the best epoch").eval()
        about = {
            "method": self._method,
            "epochs": self.epoch,
            "chosen_epoch": best["epoch"],
            "seconds": round(self.seconds, 3),
            "compiled": self._compiled,
            **self._stages.budget(),
        }
        for loader in (self._validation, self._test):
            seed_pass(loader, self.settings.epoch_seed(self.epoch))
        summary = summarize(problem, self._metric, self._validation, self._test, about)
        self._store.finish(summary)
        history = History(problem, self.metrics, summary)
        for callback in self._callbacks:
            callback.finish(history)
        return history

    def _start(self) -> None:
        for callback in self._callbacks:
            callback.start(self.settings.epochs, self._steps, self.epoch)
            callback.state(self._trained, self.metrics)

    def _enter_stage(self) -> dict[str, Any]:
        """Change what is trained where a stage begins, after which the best epoch is one of its own.

        Returns what the epoch's entry is to say of it.
        """
        is_new, notes = self._stages.enter(self.epoch, self._validation)
        if is_new:
            if self._compiled:
                torch.compiler.reset()  # else every plan would count towards torch's limit of versions of one function
            before = self._descent.state()
            self._trained = self._stages.trained(self.epoch)
            self._descent = self._new_descent()
            self._descent.load(before)
            self.best = {"epoch": self.epoch, "score": None}
        return notes

    def _new_descent(self) -> Descent:
        self._to_compile = ["the training step", "the evaluation"] if self._compiled else []
        return Descent(self._trained, self.settings, self._compiled, *self._by)

    def _try_compiler(self) -> None:
        try:
            check_compiler()
        except InputError as error:
            if not self.settings.compile_fallback:
                raise
            self.compile_problem = str(error)

    def _train_epoch(self) -> dict[str, Any]:
        every, steps = self.settings.dual_every, self._steps
        seed_pass(self._batches, self.settings.epoch_seed(self.epoch))
        self._trained.train()
        rate = self._descent.start_epoch(self.epoch)
        objectives: list[Tensor] = []
        self._say_compiling("the training step")
        for step, (inputs, target) in enumerate(shares(self._batches), start=1):
            done = (step - 1) / steps if steps else 0.0
            objectives.append(self._descent.step(inputs, target, self.epoch + done))
            if every and (self._batches_done + step) % every == 0:
                self._dual_step()
            if step % STEPS_BETWEEN_REPORTS == 0:
                self._report(objectives)
        if not objectives:
            raise InputError("there is no batch to train on: the training batches are empty")
        if len(objectives) % STEPS_BETWEEN_REPORTS:
            self._report(objectives)
        steps_taken = self._descent.end_epoch()
        if not every:
            self._dual_step()
        self._batches_done += len(objectives)
        self.epoch += 1
        self._estimate_norms()
        measured = self._measure(self._validation)
        self._check_metric(measured.metric)
        check_finite(self._trained, measured, self._validation, self.epoch, self._kept())
        return {
            "epoch": self.epoch,
            "lr": rate,
            "objective": mean_objective(objectives),
            **steps_taken,
            "loss": measured.loss,
            "metric": measured.metric.name,
            measured.metric.name: measured.scores,
            "constraints": measured.constraints,
            **self._stages.plan(),
            **self._flat_inputs(),
        }

    def _flat_inputs(self) -> dict[str, Any]:
        """What the epoch's entry says of layers that pass nothing on."""
        names = flat_inputs(self._trained.net) if trains_low(self._trained) else []
        return {"flat_inputs": names} if names else {}

    def _dual_step(self) -> None:
        """One step of the multipliers, on fresh slacks or on the running mean."""
        problem = self._trained
        if not isinstance(problem, Lagrangian):
            return
        if self._slack_batches is not None:
            problem.distance_sum.copy_(self._measure(self._slack_batches).distances)
            problem.samples.fill_(1)
        problem.dual_step()

    def _estimate_norms(self) -> None:
        """Of the views that are trained, so that they are judged by the weights as they are."""
        if not self.settings.norm_batches or not trains_low(self._trained):
            return
        for plan in self._trained.net.plans.values():
            seed_pass(self._batches, ~self.settings.epoch_seed(self.epoch))
            estimate_statistics(self._trained.net, plan, self._batches, self.settings.norm_batches)

    def _measure(self, batches: Batches) -> Evaluation:
        seed_pass(batches, ~self.settings.epoch_seed(self.epoch), generator_only=True)
        self._say_compiling("the evaluation")
        return evaluate(self._trained, batches, self._metric, compiled_terms=self._descent.terms, shared=True)

    def _say_compiling(self, what: str) -> None:
        """The first time that a compiled part is about to run."""
        if what in self._to_compile:
            self._to_compile.remove(what)
            for callback in self._callbacks:
                callback.busy(f"compiling {what}")

    def _report(self, objectives: list[Tensor]) -> None:
        check_steps(objectives, self._descent.gradients, self._batches, self.epoch + 1, self._kept())
        mean = mean_objective(objectives)
        for callback in self._callbacks:
            callback.step(self.epoch + 1, len(objectives), mean)

    def _check_metric(self, metric: Metric) -> None:
        """Scores of different metrics can't be compared."""
        before = self.metrics[-1]["metric"] if self.metrics and "metric" in self.metrics[-1] else metric.name
        if metric.name != before:
            raise InputError(
                f"the epochs so far were judged by {before!r}: continue with that metric, not {metric.name!r}"
            )
        self._metric = metric

    def _kept(self) -> str:
        where = self._store.where()
        kept = f"{where} holds the state after epoch {len(self.metrics)}; " if self.metrics and where else ""
        return f"{kept}a smaller learning rate may help"

    def _score(self, scores: dict[str, float]) -> float:
        """The mean over the low-precision views, or the full-precision one where only that is trained."""
        low = [score for view, score in scores.items() if view != "full"]
        return sum(low) / len(low) if low else scores["full"]

    def _is_out_of_patience(self) -> bool:
        if not self.settings.patience or self.epoch <= self._stages.last_change:
            return False
        return bool(self.epoch - self.best["epoch"] >= self.settings.patience)

    def _save(self, entry: dict[str, Any]) -> None:
        self.metrics.append(entry)
        assert isinstance(self._metric, Metric)
        score = self._score(entry[self._metric.name])
        is_best = self._metric.is_better(score, self.best["score"])
        if is_best:
            self.best = {"epoch": self.epoch, "score": score}
        rest = {**self._descent.state(), "batches": self._batches_done}
        self._store.save(self.metrics, self._state(), is_best, rest)

    def _state(self) -> dict[str, Any]:
        return {
            "format": 1,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "best": self.best,
            **state_of(self._stages.problem),
            **self._stages.plan(),
        }

    def _restore(self, checkpoint: dict[str, Any]) -> None:
        try:
            self._descent.load(checkpoint)
            self.epoch, self.seconds, self.best = (checkpoint[key] for key in ("epoch", "seconds", "best"))
            self._batches_done = checkpoint.get("batches", self.epoch * (self._steps or 0))
        except (*STRANGER_ERRORS, ValueError) as error:
            raise InputError(f"the checkpoint {self._store.where()} does not fit the training's optimizer") from error
        self.metrics = self._store.metrics(self.epoch)


def _method_of(problem: Problem) -> str:
    if isinstance(problem, TaskProblem):
        return "ste" if problem.low else "full"
    return "pdqat"
