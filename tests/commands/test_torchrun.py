"""`torchrun -m pdqat train`: several processes train one run, and one that dies costs an epoch at most."""

import subprocess
import sys
from pathlib import Path

import pytest

from command_line import pdqat
from deadly import OWN, TRAIN, let_one_die, write_own_code
from pdqat.cli import main
from pdqat.distributed import LAUNCHED, noticing_losses
from pdqat.errors import InputError
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run
from same_run import assert_same_run
from torchrun import torchrun


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With own code in it."""
    write_own_code(tmp_path)
    return tmp_path


def test_two_processes_train_what_one_does(folder: Path) -> None:
    ended = torchrun(folder, *TRAIN, "--out", "two")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert ended.stdout.count("epoch 3/3") == ended.stdout.count("run folder: two") == 1

    assert pdqat(*TRAIN, "--out", "one", cwd=folder).returncode == 0
    one, two = Run.open(folder / "one"), Run.open(folder / "two")
    losses = [[entry["loss"] for entry in run.metrics()] for run in (one, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert two.summary()["processes"] == 2


def test_a_process_of_several_leaves_in_order_past_threads_that_go_on() -> None:
    lines = (
        "import atexit, threading, time",
        "from pdqat.__main__ import leave",
        "atexit.register(print, 'handled')",
        "threading.Thread(target=time.sleep, args=[600]).start()",
        "print('written')",
        "leave(3)",
    )
    ended = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "written\nhandled\n", "")


def test_a_lost_process_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lose(_: object) -> None:
        with noticing_losses():
            raise RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1234")

    for name in LAUNCHED:
        monkeypatch.setenv(name, "2")
    monkeypatch.setattr("pdqat.commands.train.run", lose)
    assert main(["train"]) == 75
    said = "another process of this training is gone or does not answer; what was finished is kept"
    assert capsys.readouterr().err == f"pdqat in process 2: {said}\n"


def test_other_errors_are_not_taken_for_a_lost_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LAUNCHED:
        monkeypatch.setenv(name, "2")
    with pytest.raises(RuntimeError, match="mat1 and mat2"), noticing_losses():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


@pytest.mark.slow
def test_a_process_that_dies_is_started_again(folder: Path) -> None:
    assert torchrun(folder, *TRAIN, "--out", "whole").returncode == 0
    let_one_die(folder)
    ended = torchrun(folder, *TRAIN, "--out", "killed", restarts=1)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert [ended.stdout.count(f"epoch {epoch}/3") for epoch in (1, 2, 3)] == [1, 1, 1]
    assert_same_run(Run.open(folder / "killed"), Run.open(folder / "whole"))


@pytest.mark.slow
def test_a_process_that_dies_ends_the_job(folder: Path) -> None:
    assert torchrun(folder, *TRAIN, "--out", "whole").returncode == 0
    let_one_die(folder)
    ended = torchrun(folder, *TRAIN, "--out", "killed")
    assert ended.returncode == 1
    said = [line for line in ended.stderr.splitlines() if line.startswith("pdqat in process 0: ")]
    assert len(said) == 1
    assert "gone" in said[0] or "interrupted" in said[0]
    assert "torchrun --nproc-per-node 2 -m pdqat train --resume killed" in ended.stderr

    killed = Run.open(folder / "killed")
    assert load_checkpoint(killed.last)["epoch"] == 1
    with pytest.raises(InputError, match="not finished"):
        killed.summary()
    resumed = torchrun(folder, "train", "--resume", "killed", *OWN)
    assert resumed.returncode == 0, resumed.stderr
    assert_same_run(killed, Run.open(folder / "whole"))


@pytest.mark.slow
def test_what_is_refused(folder: Path) -> None:
    unnamed = torchrun(folder, *TRAIN)
    assert unnamed.returncode == 1
    assert "2 processes train one run: name its folder with --out" in unnamed.stderr

    (folder / "there").mkdir()
    taken = torchrun(folder, *TRAIN, "--out", "there", restarts=1)
    assert taken.returncode == 1
    assert "there exists" in taken.stderr or "there is not a run folder" in taken.stderr
    assert list((folder / "there").iterdir()) == []
