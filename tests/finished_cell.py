"""Cells of a matrix without its processes: written by hand, or trained here."""

import contextlib
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pdqat.experiments import train_cell
from pdqat.experiments.cells import Cell
from pdqat.experiments.executors import LOG
from pdqat.experiments.matrix import Matrix
from pdqat.experiments.progress import MatrixProgress
from pdqat.experiments.protocol import Protocol
from pdqat.experiments.results import OUTPUT
from pdqat.runs.folder import Run
from pdqat.terminal import PlainConsole

MULTIPLIERS = {"stages.0.0.conv0": 0.1, "stages.0.0.conv1": 0.3, "stages.1.0.conv0": 0.2}
EPOCHS = 2


def finish(folder: Path, multipliers: Mapping[str, float] = MULTIPLIERS, bits: int = 2) -> None:
    """Write metrics, summary and measurements of a trained and measured cell into the folder."""
    view, layers = f"{bits}-bit", [name for name in multipliers if name != OUTPUT]
    accuracy = {name: {"validation": 0.5, "test": 0.5} for name in ("full", view)}
    summary: dict[str, Any] = {
        "method": "pdqat-layers",
        "epochs": EPOCHS,
        "chosen_epoch": EPOCHS,
        "seconds": 1.0,
        "metric": "accuracy",
        "accuracy": accuracy,
        "constraints": [_bound(name, multiplier, view) for name, multiplier in multipliers.items()],
        "plans": {view: dict.fromkeys(layers, str(bits))},
        "left_alone": {},
        "parameters": 1000,
        "compiled": False,
        "versions": {},
    }
    distances = dict.fromkeys(layers, 0.1)
    measured = {
        "processor": "made by hand",
        "train_accuracy": {view: 0.5},
        "layer_distances": {"squared": distances, "relative": distances},
    }
    scores = {"metric": "accuracy", "accuracy": dict.fromkeys(accuracy, 0.5)}
    entry = {"lr": 0.01, "objective": 1.0, "loss": 1.0, **scores, "constraints": summary["constraints"]}
    Run(folder).write_metrics([{"epoch": epoch, **entry} for epoch in range(1, EPOCHS + 1)])
    Run(folder).write_summary(summary)
    Run(folder).write_measured(measured)


def _bound(name: str, multiplier: float, view: str) -> dict[str, Any]:
    numbers = {"tolerance": 0.2, "distance": 0.1, "slack": -0.1, "multiplier": multiplier}
    kind, where = ("output", "") if name == OUTPUT else ("layer", name)
    return {"name": f"{view}/{kind}/{where}", "kind": kind, "where": where, "view": view, "satisfied": True, **numbers}


@dataclass(frozen=True)
class Ended:
    """A job that is over."""

    code: int

    def ended(self) -> int:
        return self.code

    def stop(self) -> None:
        pass


class InThisProcess:
    """An executor that trains a cell as its own process would, but without the seconds that starting one takes."""

    jobs = 1

    def start(self, folder: Path) -> Ended:
        with (folder / LOG).open("w") as log, contextlib.redirect_stderr(log):
            return Ended(train_cell.main([str(folder), "1", "cpu", str(os.getppid())]))


def train_here(cells: Sequence[Cell], protocol: Protocol, folder: Path) -> str:
    """Work through the cells in this process, and return what is said meanwhile."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pdqat.experiments.matrix.POLL_SECONDS", 0.05)
        Matrix(cells, protocol, folder).run(InThisProcess(), MatrixProgress(PlainConsole(file=said)))
    return said.getvalue()
