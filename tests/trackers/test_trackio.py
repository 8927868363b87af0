"""Trackio's database, read back by SQL."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trackio", reason="the extra trackio is not installed: it wants an older pillow than is tested")

from pdqat.runs.folder import Run

pytestmark = pytest.mark.slow

TRAIN = """
import sys
from interrupted import Interrupt
from own_problem import fitted, own_problem
from pdqat.trackers import log_to

resume, run = sys.argv[1] == "resume", sys.argv[2]
with log_to("trackio", run, {"bits": 2}) as log:
    stopping = [] if resume else [Interrupt(epoch=2)]
    fitted(own_problem(), epochs=4, out=run, resume=resume, callbacks=[log, *stopping])
"""


def train(how: str, run: Path) -> int:
    """In a process of its own: Trackio reads where its folder is when it is imported."""
    paths = [str(Path(__file__).parents[1]), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TRACKIO_DIR": str(run.parent / "trackio")}
    command = [sys.executable, "-c", TRAIN, how, str(run)]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


def test_a_stopped_and_resumed_training_has_every_epoch_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train("start", run) != 0
    assert train("resume", run) == 0
    database = sqlite3.connect(tmp_path / "trackio" / "pdqat.db")
    rows: list[Any] = database.execute("select run_id, step, metrics from metrics order by id").fetchall()
    database.close()
    assert len({identity for identity, _, _ in rows}) == 1
    logged = [(step, json.loads(metrics)) for _, step, metrics in rows]
    losses = [(step, numbers["loss"]) for step, numbers in logged if "loss" in numbers]
    assert losses == [(entry["epoch"], pytest.approx(entry["loss"])) for entry in Run.open(run).metrics()]
    assert all("weights/2-bit/4" in numbers and "levels/2-bit/4" in numbers for _, numbers in logged[:4])
    assert "plan/2-bit" in logged[-1][1]
