"""A training that is stopped on the way, as Ctrl-C does it."""

import shutil
from pathlib import Path
from typing import Any

from pdqat.training.callbacks import Callback


class Interrupt(Callback):
    """Stops the training at the first report of a step in an epoch, or at its end."""

    def __init__(self, epoch: int, at_step: bool = False) -> None:
        self._epoch = epoch
        self._at_step = at_step

    def step(self, epoch: int, step: int, objective: float) -> None:
        if self._at_step and epoch == self._epoch:
            raise KeyboardInterrupt

    def epoch(self, entry: dict[str, Any]) -> None:
        if not self._at_step and entry["epoch"] == self._epoch:
            raise KeyboardInterrupt


class Snapshots(Callback):
    """Copies the run folder after every epoch: what a training that is killed there leaves."""

    def __init__(self, run: Path, to: Path) -> None:
        self._run = run
        self._to = to

    def epoch(self, entry: dict[str, Any]) -> None:
        shutil.copytree(self._run, self._to / str(entry["epoch"]))
