"""Cells in processes of this machine and on Ray, as `pdqat paper run` starts them: stopped, continued, shared."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import contents
from configured import create
from finished_cell import train_here
from pdqat.cli import main
from pdqat.paper.protocols import PROTOCOLS
from pdqat.paper.suites.methods import baseline, layers, output
from pdqat.runs.folder import BusyError, Run
from same_run import assert_same_run, heed_interrupts

TRIAL = PROTOCOLS["trial"]
CELLS = [baseline(2, 0), layers(2, 0), output(2, 0)]
TWO_BITS = ["paper", "run", "table1", "--protocol", "trial", "--only", "*-2bit-*"]
AT_ONCE = ["--jobs", str(max(2, os.cpu_count() or 1))]
"""As many jobs as processors: one thread each, for the same sums everywhere."""
WAIT_SECONDS = 300


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "pdqat", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )


def wait_for(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    """Until it holds, while the process goes on."""
    started = time.monotonic()
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - started < WAIT_SECONDS
        time.sleep(0.02)


def is_trained(folder: Path) -> bool:
    """Whether a process holds the cell in this folder, and it is not the matrix that makes it ready."""
    try:
        with Run(folder).locked():
            return False
    except (BusyError, FileNotFoundError):
        return (folder / "train.log").exists()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the three cells of 2 bits, trained one after the other."""
    folder = tmp_path_factory.mktemp("undisturbed")
    train_here(CELLS, TRIAL, folder)
    return folder


def assert_same_cells(left: Path, right: Path) -> None:
    for folder in (left, right):
        finished = {path.name for path in (folder / "cells").iterdir() if Run(path).measured_file.exists()}
        assert finished == {cell.name for cell in CELLS}
    for cell in CELLS:
        assert_same_run(cell.run(left), cell.run(right))
        first, second = (cell.run(folder).measured_file.read_bytes() for folder in (left, right))
        assert first == second


def test_a_finished_cell_is_not_trained_again(undisturbed: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*") if path.is_file()}
    assert main([*TWO_BITS, "--folder", str(undisturbed)]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_killed_matrix_continues_and_ends_with_the_same_numbers(undisturbed: Path, tmp_path: Path) -> None:
    process = start(*TWO_BITS, *AT_ONCE, "--folder", tmp_path)
    wait_for(process, lambda: bool(list(tmp_path.glob("cells/*/metrics.jsonl"))))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    train_here(CELLS, TRIAL, tmp_path)
    assert_same_cells(undisturbed, tmp_path)


def test_an_interrupt_stops_every_cell_and_keeps_what_is_finished(undisturbed: Path, tmp_path: Path) -> None:
    finished, *unfinished = (cell.run(tmp_path).path for cell in CELLS)
    shutil.copytree(CELLS[0].run(undisturbed).path, finished)
    before = contents(finished)
    process = start(*TWO_BITS, *AT_ONCE, "--folder", tmp_path)
    wait_for(process, lambda: all(map(is_trained, unfinished)))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    again = shlex.join(["pdqat", *TWO_BITS, *AT_ONCE, "--folder", str(tmp_path)])
    assert said == f"pdqat: interrupted; what was finished is kept; continue with\n{again}\n"
    assert contents(finished) == before
    for folder in unfinished:
        with Run.open(folder).locked():
            pass


def test_two_matrices_at_once_share_the_work(undisturbed: Path, tmp_path: Path) -> None:
    process = start(*TWO_BITS, *AT_ONCE, "--folder", tmp_path)
    wait_for(process, lambda: is_trained(CELLS[0].run(tmp_path).path))
    said_here = train_here(CELLS, TRIAL, tmp_path)
    said_there, complaints = process.communicate()
    assert (process.returncode, complaints) == (0, "")
    assert "all 3 cells are finished" in said_there
    assert_same_cells(undisturbed, tmp_path)
    assert (said_here + said_there).count(": finished") == len(CELLS)


def test_a_cell_that_cannot_be_trained_is_named_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = CELLS[0]
    create(cell.run(tmp_path).path, cell.config(TRIAL, tmp_path)).last.write_text("no checkpoint")
    assert main([*TWO_BITS[:-1], "ste-2bit-*", "--folder", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("pdqat: 1 of 1 cells failed: ste-2bit-seed0: ")
    assert "last.pt is damaged or not a torch file" in said
    assert "Traceback" not in said


@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("ray_cluster")
def test_ray_trains_the_same_cells(undisturbed: Path, tmp_path: Path) -> None:
    for finished in CELLS[1:]:
        shutil.copytree(finished.run(undisturbed).path, finished.run(tmp_path).path)
    assert main([*TWO_BITS, "--executor", "ray", "--folder", str(tmp_path)]) == 0
    assert_same_cells(undisturbed, tmp_path)


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_without_a_cluster_ray_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # clusters of other tests are noted elsewhere
    assert main([*TWO_BITS, "--executor", "ray", "--folder", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "pdqat: no Ray cluster was found: start one with 'ray start --head', or set RAY_ADDRESS to its address\n"
    )


def test_show_writes_tables_and_numbers(undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["paper", "show", "table1", "--protocol", "trial", "--folder", str(undisturbed)]
    assert main(arguments) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 of 13 cells finished" in printed
    assert "missing: ste-1bit-seed0" in printed
    entries = json.loads((undisturbed / "table1.json").read_text())
    assert {entry["method"] for entry in entries} == {"ste", "pdqat-output", "pdqat-layers"}
    for entry in entries:
        run = Run.open(undisturbed / "cells" / entry["cell"])
        accuracy = run.summary()["accuracy"]
        assert entry["bits"] == 2
        assert entry["seed"] == 0
        assert entry["epochs"] == 2
        assert entry["seconds"] > 0
        assert entry["test_accuracy_low"] == accuracy["2-bit"]["test"]
        assert entry["test_accuracy_full"] == accuracy.get("full", {}).get("test")
    by_method = {entry["method"]: entry for entry in entries}
    assert by_method["pdqat-layers"]["tolerance"] == 0.67
    markdown = (undisturbed / "table1.md").read_text()
    expected = f"{100 * by_method['ste']['test_accuracy_low']:.2f} (n = 1)"
    assert f"| 2 | {expected} | 89.38 ± 0.34 |" in markdown
    assert "Ours: width 1, 2 epochs, 256 training images; the paper's: width 5, 100 epochs" in markdown
    assert r"\begin{tabular}" in (undisturbed / "table1.tex").read_text()
