"""Train the run in a folder to its end and measure it: one process of the matrix.

    python -m pdqat.experiments.train_cell FOLDER THREADS DEVICE PARENT

Continues where it was stopped, and stops when the process PARENT is gone. `measured.json`, which the figures need
beside the summary, is written last: a folder with it is a finished cell.
"""

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from pdqat.batches import limited
from pdqat.config.loaders import Loaders, loaders_of
from pdqat.config.presets import config_of
from pdqat.config.problem import problem_of
from pdqat.config.training import trainer_of
from pdqat.constraints import LayerConstraint
from pdqat.errors import InputError
from pdqat.evaluation import evaluate
from pdqat.lagrangian import Lagrangian
from pdqat.layers import Distance
from pdqat.printing import complain
from pdqat.process import keep_freed_memory, processor
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import BusyError, Run
from pdqat.task import Problem, trains_low
from pdqat.training.callbacks import Callback
from pdqat.training.state import with_state

BUSY = 3
TRAIN_IMAGES = 10_000
"""Of so many training images the train accuracy is taken, without augmentation."""


class OrphanedError(InputError):
    """The matrix that wanted this cell is gone."""


class Orphaned(Callback):
    """Stops a process whose matrix was killed: the next one will continue it."""

    def __init__(self, parent: int) -> None:
        self._parent = parent

    def step(self, epoch: int, step: int, objective: float) -> None:
        """Raise OrphanedError if the matrix is no longer there."""
        if os.getppid() != self._parent:
            raise OrphanedError("the process that started this one is gone")


def train_cell(folder: Path, threads: int, device: str, parent: int) -> None:
    """Train and measure; raises BusyError if another process does, or just did."""
    keep_freed_memory()
    run = Run.open(folder)
    with run.locked():
        if run.measured_file.exists():
            raise BusyError(f"another process has finished {folder}")
        config = dataclasses.replace(
            config_of(run), threads=threads, device=device, init=starting_weights(run), teacher=teacher(run)
        )
        loaders = loaders_of(config)
        problem = problem_of(config, loaders)
        if run.summary_file.exists():
            run.summary()  # which says so if it is damaged
        else:
            problem = trainer_of(run, config, loaders, problem, [Orphaned(parent)]).train().problem
        problem = with_state(problem, load_checkpoint(run.best), f"the checkpoint {run.best}")
        run.write_measured(measured(problem, loaders))


def starting_weights(run: Run) -> str | None:
    """The file of weights to start from, named from the run's folder; None to continue from a checkpoint."""
    init = config_of(run).init
    return None if init is None or run.last.exists() else str(run.path / init)


def teacher(run: Run) -> str | None:
    """The folder of the teacher, named from the run's folder."""
    named = config_of(run).teacher
    return None if named is None else str(run.path / named)


def measured(problem: Problem, loaders: Loaders) -> dict[str, Any]:
    """Accuracy on training images, layer distances whatever the model was constrained by, and the processor."""
    training = limited(loaders.plain_training, TRAIN_IMAGES)
    content: dict[str, Any] = {
        "processor": processor(),
        "train_accuracy": evaluate(problem, training).scores,
        "layer_distances": {},
    }
    plans = problem.net.plans.values()
    if trains_low(problem) and any(
        precision.weight is not None for plan in plans for precision in plan.precisions.values()
    ):
        for distance in (Distance.SQUARED, Distance.RELATIVE):
            content["layer_distances"][distance.value] = _layer_distances(problem, loaders, distance)
    return content


@torch.no_grad()
def _layer_distances(problem: Problem, loaders: Loaders, distance: Distance) -> dict[str, float]:
    """The mean distance of every layer on the validation images, by name."""
    lagrangian = Lagrangian(problem.net, F.cross_entropy, [LayerConstraint(distance, 0.0)])
    distances = evaluate(lagrangian, loaders.validation).distances.tolist()
    return dict(zip((bound.where for bound in lagrangian.bounds), distances, strict=True))


def main(arguments: Sequence[str]) -> int:
    """Exit code 2 with one sentence if the cell can't be trained, BUSY if another process trains it."""
    try:
        folder, threads, device, parent = arguments
        train_cell(Path(folder), int(threads), device, int(parent))
    except BusyError:
        return BUSY
    except (InputError, OSError) as error:
        complain(" ".join(str(error).split()))
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
