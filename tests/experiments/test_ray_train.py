"""`pdqat train --executor ray`: workers of a Ray cluster train one run, and one that dies costs an epoch at most."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from deadly import OWN, TRAIN, let_one_die, write_own_code
from pdqat.cli import main
from pdqat.runs.folder import Run
from same_run import assert_same_run
from torchrun import torchrun

ON_RAY = ["--executor", "ray", "--workers", "2"]
ray_speaks = pytest.mark.filterwarnings("ignore")  # in warnings of its own


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With own code, and a run that two processes of torchrun have trained."""
    made = tmp_path_factory.mktemp("shared")
    write_own_code(made)
    assert torchrun(made, *TRAIN, "--out", "whole").returncode == 0
    return made


@pytest.fixture(autouse=True)
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own code is found in the current folder."""
    if "folder" in request.fixturenames:
        monkeypatch.chdir(request.getfixturevalue("folder"))


@ray_speaks
@pytest.mark.slow
@pytest.mark.usefixtures("ray_cluster")
def test_two_workers_train_what_torchrun_trains(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, *ON_RAY, "--out", "on-ray"]) == 0
    said = capsys.readouterr().out
    assert [said.count(f"epoch {epoch}/3") for epoch in (1, 2, 3)] == [1, 1, 1]
    assert_same_run(Run.open(folder / "on-ray"), Run.open(folder / "whole"))
    assert not (folder / "on-ray" / ".ray").exists()


@ray_speaks
@pytest.mark.slow
@pytest.mark.usefixtures("ray_cluster")
def test_a_worker_that_dies_is_started_again(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    let_one_die(folder)
    assert main([*TRAIN, *ON_RAY, "--out", "killed"]) == 0
    assert not (folder / "deadly").exists()
    said = capfd.readouterr()
    assert [said.out.count(f"epoch {epoch}/3") for epoch in (1, 2, 3)] == [1, 1, 1]
    assert "pdqat: a worker of this training is gone or does not answer; the workers are started again" in said.err
    assert_same_run(Run.open(folder / "killed"), Run.open(folder / "whole"))


@ray_speaks
@pytest.mark.slow
@pytest.mark.usefixtures("ray_cluster")
def test_what_a_worker_refuses_is_said_in_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, damaged = Run.open(folder / "whole"), Run(shutil.copytree(folder / "whole", folder / "damaged"))
    damaged.summary_file.unlink()
    damaged.last.write_bytes(b"no checkpoint")
    capsys.readouterr()
    assert main(["train", "--resume", "damaged", *OWN, *ON_RAY]) == 2
    assert "last.pt is damaged or not a torch file" in capsys.readouterr().err
    assert main(["train", "--resume", str(run.path), *OWN, *ON_RAY]) == 2
    assert "is finished" in capsys.readouterr().err
    assert main([*TRAIN, "--executor", "ray", "--workers", "3", "--out", "three"]) == 2
    assert "3 workers need 3 CPUs, and the Ray cluster has 2" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--executor", "ray"], ["--workers", "2"]])
def test_workers_and_ray_go_together(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *given, "--out", str(tmp_path / "run")]) == 2
    assert "--executor ray and --workers N go together" in capsys.readouterr().err
    assert not os.path.lexists(tmp_path / "run")


def test_without_ray_no_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    assert main(["train", *ON_RAY, "--out", str(tmp_path / "run")]) == 2
    assert "--executor ray needs Ray: pip install 'pdqat[ray]'" in capsys.readouterr().err
    assert not os.path.lexists(tmp_path / "run")
