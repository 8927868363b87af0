"""The command as a person uses it, and as a machine that fails does."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pdqat.cli import main
from pdqat.data import default_folder
from pdqat.data.cifar_files import find
from pdqat.runs.folder import Run
from same_run import assert_same_run, heed_interrupts

EPOCHS = 10
OPTIONS = f"--train-images 128 --batch-size 32 --epochs {EPOCHS} --lr 0.005 --dual-rate 0.5".split()
POLL = 0.005


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """The command in a process of its own, on one thread."""
    command = [sys.executable, "-m", "pdqat", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        preexec_fn=heed_interrupts,
    )


def finish(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate()
    assert (process.returncode, said) == (0, "")


def ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def stop(process: subprocess.Popen[str], folder: Path, epochs: int, delay: float, by: signal.Signals) -> str:
    """Send a signal `delay` seconds after the run has done so many epochs; returns what the process said at its end."""
    while not ((folder / "config.toml").exists() and epochs_done(folder) >= epochs):
        if ended_within(process, POLL):
            break
    ended_within(process, delay)
    process.send_signal(by)
    _, said = process.communicate()
    return said


def epochs_done(folder: Path) -> int:
    file = folder / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    assert main(["train", *OPTIONS, "--out", str(folder)]) == 0
    return Run.open(folder)


def test_a_run_stopped_several_times_and_resumed_equals_an_undisturbed_one(undisturbed: Run, tmp_path: Path) -> None:
    """Killed in its first epoch or so, interrupted some epochs later, killed again at some moment after that."""
    folder, moments = tmp_path / "run", random.Random(1)
    arguments: list[str | Path] = [*OPTIONS, "--out", folder]
    continuing = f"; continue with\npdqat train --resume {folder}\n"
    for further_epochs, by, code, last_words in (
        (0, signal.SIGKILL, -signal.SIGKILL, ""),
        (2, signal.SIGINT, 130, f"pdqat: interrupted; what was finished is kept{continuing}"),
        (2, signal.SIGKILL, -signal.SIGKILL, ""),
    ):
        epochs = epochs_done(folder) + further_epochs
        process = start("train", *arguments)
        said = stop(process, folder, epochs, moments.uniform(0, 0.1), by)
        assert (process.returncode, said) == (code, last_words)
        assert epochs <= epochs_done(folder) < EPOCHS
        assert not (folder / "summary.json").exists()
        arguments = ["--resume", folder]
    assert main(["train", "--resume", str(folder)]) == 0
    assert_same_run(undisturbed, Run.open(folder))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_run_killed_at_any_moment_and_resumed_equals_an_undisturbed_one(
    undisturbed: Run, tmp_path: Path, seed: int
) -> None:
    """Kills fall anywhere behind the configuration, into reading, training and writing alike."""
    folder, moments = tmp_path / "run", random.Random(seed)
    process = start("train", *OPTIONS, "--out", folder)
    kills = 0
    while kills < 8 and process.returncode != 0:
        progress = moments.random() < 0.7
        stop(process, folder, epochs_done(folder) + progress, moments.uniform(0, 0.3), signal.SIGKILL)
        if process.returncode != 0:
            kills += 1
            process = start("train", "--resume", folder)
    if process.returncode != 0:
        finish(process)
    assert kills >= 3
    assert_same_run(undisturbed, Run.open(folder))


@pytest.mark.slow
def test_the_quick_start_ends_with_an_accurate_network_in_two_bits(tmp_path: Path) -> None:
    finish(start("train", "--preset", "quickstart", "--out", tmp_path / "run"))
    summary = Run.open(tmp_path / "run").summary()
    assert summary["accuracy"]["2-bit"]["test"] > 0.95
    assert summary["accuracy"]["full"]["test"] > 0.95
    assert sum(bound["satisfied"] for bound in summary["constraints"]) >= 8


@pytest.mark.slow
def test_cifar10_is_trained_on(tmp_path: Path) -> None:
    if find("cifar10", default_folder()) is None:
        pytest.skip("needs CIFAR-10: pdqat data cifar10")
    data, size = ["--data", "cifar10"], ["--epochs", "1", "--train-images", "512", "--validation", "0.01"]
    finish(start("train", *data, *size, "--out", tmp_path / "run"))
    summary = Run.open(tmp_path / "run").summary()
    assert summary["accuracy"].keys() == {"full", "2-bit"}
    assert len(summary["constraints"]) == 9, "8 layers and the output"
