"""One cell, trained as its process does."""

import json
import os
from pathlib import Path

import pytest

from configured import create
from pdqat.config.train_config import Method, TrainConfig
from pdqat.experiments.train_cell import BUSY, main, starting_weights, teacher
from pdqat.process import processor
from pdqat.runs.folder import Run

TINY = TrainConfig(data="digits", method=Method.STE, width=1, train_images=16, batch_size=8, epochs=1, threads=1)


def train(run: Run, parent: int) -> int:
    return main([str(run.path), "1", "cpu", str(parent)])


def test_a_cell_is_measured_last_and_not_trained_again(tmp_path: Path) -> None:
    run = create(tmp_path / "cell", TINY)
    assert train(run, os.getppid()) == 0
    measured = json.loads(run.measured_file.read_text())
    assert measured["processor"] == processor()
    (low,) = run.summary()["plans"]
    assert set(measured["train_accuracy"]) == {low}
    assert set(measured["layer_distances"]) == {"squared", "relative"}
    for distances in measured["layer_distances"].values():
        assert set(distances) == set(run.summary()["plans"][low])
    before = run.best.stat().st_mtime_ns
    assert train(run, os.getppid()) == BUSY
    run.measured_file.unlink()
    assert train(run, os.getppid()) == 0, "a trained cell is measured again"
    assert json.loads(run.measured_file.read_text()) == measured
    assert run.best.stat().st_mtime_ns == before


def test_a_cell_that_another_process_trains_is_left_alone(tmp_path: Path) -> None:
    run = create(tmp_path / "cell", TINY)
    with run.locked():
        assert train(run, os.getppid()) == BUSY
    assert not run.metrics_file.exists()


def test_a_cell_whose_matrix_is_gone_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = create(tmp_path / "cell", TINY)
    assert train(run, parent=os.getpid()) == 2
    assert capsys.readouterr().err == "pdqat: the process that started this one is gone\n"
    assert not run.metrics_file.exists()
    with run.locked():
        pass


def test_a_warm_start_killed_before_its_first_checkpoint_starts_warm_again(tmp_path: Path) -> None:
    """best.pt is written before last.pt, from which training goes on."""
    init = "../full-32bit-seed0/best.pt"
    run = create(tmp_path / "cell", TrainConfig(init=init))
    assert starting_weights(run) == str(run.path / init)
    run.best.touch()
    assert starting_weights(run) == str(run.path / init)
    run.last.touch()
    assert starting_weights(run) is None


def test_a_teacher_is_named_from_the_cells_folder_also_when_training_goes_on(tmp_path: Path) -> None:
    run = create(tmp_path / "cell", TrainConfig(teacher="../full-32bit-seed0"))
    run.last.touch()
    assert teacher(run) == str(run.path / "../full-32bit-seed0")
    assert teacher(create(tmp_path / "other", TrainConfig())) is None
