"""Trained: a run's model with its data, opened again. What every command that needs more than files starts from."""

import dataclasses
from pathlib import Path
from typing import Any, Self

import torch

from pdqat.batches import first_rows, on_device
from pdqat.config.loaders import Loaders, loaders_of
from pdqat.config.own_code import check_named_again
from pdqat.config.presets import config_of
from pdqat.config.problem import problem_of
from pdqat.config.train_config import Method, TrainConfig
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.precision import MIXED, BitPlan
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run
from pdqat.runs.plan_file import PlanModel, check_model, read_plan
from pdqat.task import Problem
from pdqat.training.state import with_state


@dataclasses.dataclass(frozen=True)
class Trained:
    """The model of a run of the command line, in evaluation mode."""

    run: Run
    config: TrainConfig
    loaders: Loaders
    problem: Problem

    @classmethod
    def open(
        cls,
        path: Path,
        model: str | None = None,
        data: str | None = None,
        *,
        checkpoint: str = "best",
        device: str | None = None,
    ) -> Self:
        """Open a run folder.

        Args:
            path: the run folder.
            model: the run's model function of own code, named again; None for a built-in model.
            data: the run's data function of own code, named again; None for a built-in data set.
            checkpoint: "best", the chosen model, or "last".
            device: another one than the run was trained on.
        """
        run = Run.open(path)
        config = config_of(run)
        check_named_again("model", config.model, model, path)
        check_named_again("data", config.data, data, path)
        # The checkpoint holds the weights, so the file that the run started from may be gone.
        teacher = None if config.teacher is None else str(run.path / config.teacher)
        config = dataclasses.replace(
            config, init=None, take_over=False, teacher=teacher, device=device or config.device
        )
        file = run.last if checkpoint == "last" else run.best
        state = load_checkpoint(file)
        loaders = loaders_of(config)
        problem = with_state(problem_of(config, loaders), state, f"the checkpoint {file}")
        return cls(run, config, loaders, problem.eval())

    @classmethod
    def open_finished(cls, path: Path, model: str | None = None, data: str | None = None, purpose: str = "use") -> Self:
        """Open a finished run with a low-precision view, on the CPU; raises InputError, with the purpose, if not."""
        run = Run.open(path)
        config = config_of(run)
        run.summary()
        if config.method is Method.FULL:
            raise InputError(f"the run {path} trained full precision only: there is no low precision to {purpose}")
        return cls.open(path, model, data, device="cpu")

    @property
    def example(self) -> Any:
        """A few inputs, on the CPU."""
        return on_device(first_rows(self.loaders.example, 2), torch.device("cpu"))

    @property
    def plan_model(self) -> PlanModel:
        """What plan files of this run say they were made for."""
        return PlanModel(self.config.model, self.config.width)

    def under_plan(self, path: Path) -> Self:
        """The model under the plan in a file, without any training for it."""
        check_model(path, self.plan_model)
        try:
            problem = self.problem.under_plan(BitPlan(MIXED, read_plan(path)))
        except InputError as error:
            raise InputError(f"the plan {path} does not fit the run {self.run.path}: {error}") from error
        return dataclasses.replace(self, problem=problem)

    def history(self) -> list[dict[str, Any]]:
        """The epochs' entries up to the chosen one; raises InputError if the file does not belong to the run."""
        summary, metrics, file = self.run.summary(), self.run.metrics(), self.run.metrics_file
        if not metrics or len(metrics) != summary["epochs"]:
            raise InputError(
                f"{file} is missing or damaged: it holds {len(metrics)} epochs, the run's summary {summary['epochs']}"
            )
        upto = metrics[: summary["chosen_epoch"]]
        places = [entry["where"] for entry in upto[-1]["constraints"]] if upto else []
        if isinstance(self.problem, Lagrangian) and places != [bound.where for bound in self.problem.bounds]:
            raise InputError(f"{file} is damaged: its chosen epoch has not the constraints of the run's plan")
        return upto
