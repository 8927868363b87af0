"""Weights & Biases: offline, in the folder `wandb` of the training, unless WANDB_MODE says otherwise."""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdqat.trackers.tracker import PROJECT, Bars, Note, Tracker, Training


class WandB(Tracker):
    """Numbers by epoch, histograms, options as the configuration, plans and the page as HTML and texts."""

    name = "wandb"
    package = "wandb"

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self._note = Note(training, self.name)

    def look(self) -> str:
        """The command that sends it, or where it is sent."""
        if self._mode() == "offline":
            return f"wandb sync {self.training.folder / 'wandb'}/offline-run-*"
        return "Weights & Biases, since WANDB_MODE says so"

    def open(self, done: int) -> int:
        """Go on under the same id; offline that is a further folder, which `wandb sync` joins to the first."""
        import wandb

        note = self._note.read()
        logged = int(note.get("epochs", 0))
        if logged > done:  # which can't be taken back
            note, logged = {}, 0
        self._id = str(note.get("run") or uuid.uuid4().hex[:8])
        mode: Any = self._mode()
        is_offline = mode == "offline"
        self.training.folder.mkdir(parents=True, exist_ok=True)
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            dir=os.environ.get("WANDB_DIR", str(self.training.folder)),
            id=self._id,
            name=os.environ.get("WANDB_NAME", self.training.name),
            config=dict(self.training.options),
            mode=mode,
            resume=None if is_offline else "allow",
            settings=wandb.Settings(console="off", silent=is_offline, x_disable_stats=True),
        )
        self._note.write(run=self._id, epochs=logged)
        return logged

    def log(self, epoch: int, numbers: Mapping[str, float], histograms: Mapping[str, Bars]) -> None:
        """As one step, whose number is the epoch's: Weights & Biases takes each only once."""
        import wandb

        bars = {
            name: wandb.Histogram(np_histogram=(list(bars.counts), list(bars.edges)))
            for name, bars in histograms.items()
        }
        self._run.log({**numbers, **bars}, step=epoch, commit=True)
        self._note.write(run=self._id, epochs=epoch)

    def finish(self, epochs: int, numbers: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """In the run's summary."""
        self._run.summary.update({**numbers, **texts})

    def page(self, path: Path) -> None:
        """As a panel."""
        import wandb

        self._run.log({"report": wandb.Html(path.read_text(encoding="utf-8"), inject=False)})

    def close(self, failed: bool) -> None:
        """Say how it ended; what is not on disk yet is written by a process of its own."""
        self._run.finish(exit_code=int(failed))

    def _mode(self) -> str:
        return os.environ.get("WANDB_MODE", "offline")
