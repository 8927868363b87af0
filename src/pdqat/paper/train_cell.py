"""Train the run in a folder to its end and measure it: one process of the matrix.

    python -m pdqat.paper.train_cell FOLDER THREADS DEVICE PARENT

Continues where it was stopped, and stops when the process PARENT is gone. `measured.json`, which the figures need
beside the summary, is written last: a folder with it is a finished cell.
"""

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from pdqat.constraints import LayerConstraint
from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import Distance
from pdqat.paper.cells import MEASURED
from pdqat.training import Run, Trainer
from pdqat.training.checkpoints import load_checkpoint
from pdqat.training.config import Method
from pdqat.training.evaluation import evaluate
from pdqat.training.process import keep_freed_memory
from pdqat.training.run import BusyError
from pdqat.training.setup import Setup

BUSY = 3
TRAIN_IMAGES = 10_000
"""Of so many training images the train accuracy is taken, without augmentation."""


class OrphanedError(InputError):
    """The matrix that wanted this cell is gone."""


class Silent:
    """The matrix watches the files instead. A process whose matrix was killed stops: the next one will continue it."""

    def __init__(self, parent: int) -> None:
        self._parent = parent

    def start(self, epochs: int, steps: int, done: int) -> None:
        """Nothing to show."""

    def step(self, epoch: int, step: int, objective: float) -> None:
        """Look whether the matrix is still there."""
        if os.getppid() != self._parent:
            raise OrphanedError("the process that started this one is gone")

    def epoch(self, entry: dict[str, Any]) -> None:
        """Nothing to show."""


def train_cell(folder: Path, threads: int, device: str, parent: int) -> None:
    """Train and measure; raises BusyError if another process does, or just did."""
    keep_freed_memory()
    run = Run.open(folder)
    with run.locked():
        if (folder / MEASURED).exists():
            raise BusyError(f"another process has finished {folder}")
        setup = Setup(dataclasses.replace(run.config(), threads=threads, device=device, init=starting_weights(run)))
        if run.summary_file.exists():
            run.summary()  # which says so if it is damaged
        else:
            Trainer(run, setup).train(Silent(parent))
        setup.load(load_checkpoint(run.best), run.best)
        write_atomically(folder / MEASURED, (json.dumps(measured(setup), indent=1) + "\n").encode())


def starting_weights(run: Run) -> str | None:
    """The weights to start from, named from the run's folder; none if there is a checkpoint to continue from."""
    init = run.config().init
    return None if init is None or run.last.exists() else str(run.path / init)


def measured(setup: Setup) -> dict[str, Any]:
    """The chosen model's accuracy on training images, and its layer distances whatever it was constrained by."""
    content: dict[str, Any] = {"train_accuracy": _train_accuracy(setup), "layer_distances": {}}
    if setup.config.method is not Method.FULL and any(
        precision.weight is not None for plan in setup.net.plans.values() for precision in plan.precisions.values()
    ):
        for distance in (Distance.SQUARED, Distance.RELATIVE):
            content["layer_distances"][distance.value] = _layer_distances(setup, distance)
    return content


def _train_accuracy(setup: Setup) -> dict[str, float]:
    return evaluate(setup.objective, setup.training_images(TRAIN_IMAGES)).accuracy


@torch.no_grad()
def _layer_distances(setup: Setup, distance: Distance) -> dict[str, float]:
    """Per layer, on the validation images."""
    lagrangian = Lagrangian(setup.net, F.cross_entropy, [LayerConstraint(distance, 0.0)]).to(setup.device)
    found = evaluate(lagrangian, setup.validation_batches()).distances.tolist()
    return dict(zip((each.where for each in lagrangian.constraints), found, strict=True))


def main() -> int:
    """Exit code 2 with one sentence if the cell can't be trained, BUSY if another process trains it."""
    try:
        folder, threads, device, parent = sys.argv[1:]
        train_cell(Path(folder), int(threads), device, int(parent))
    except BusyError:
        return BUSY
    except (InputError, OSError) as error:
        print(f"pdqat: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
