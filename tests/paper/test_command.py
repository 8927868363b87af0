"""`pdqat paper` as a person uses it, on the digits: interrupted, continued, in parallel, on Ray; and what it shows."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pdqat.cli import main
from pdqat.paper.cells import MEASURED
from pdqat.paper.executors import LocalExecutor, Resources
from pdqat.training import Run
from same_run import assert_same_run, heed_interrupts

TWO_BITS = (
    "paper",
    "run",
    "table1",
    "--protocol",
    "trial",
    "--only",
    "*-2bit-*",
    "--jobs",
    str(max(2, os.cpu_count() or 1)),
)
"""As many jobs as processors: one thread each, for the same sums everywhere."""
CELLS = ["pdqat-layers-2bit-0.67-seed0", "pdqat-output-2bit-0.7-seed0", "ste-2bit-seed0"]


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pdqat.cli", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )


def call(*arguments: str | Path) -> str:
    process = start(*arguments)
    printed, said = process.communicate()
    assert (process.returncode, said) == (0, "")
    return printed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    printed = call(*TWO_BITS, "--folder", folder)
    assert "all 3 cells are finished" in printed
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "cells").iterdir() if (path / MEASURED).exists())


def test_a_finished_cell_is_not_trained_again(undisturbed: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*") if path.is_file()}
    call(*TWO_BITS, "--folder", undisturbed)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def assert_same_cells(left: Path, right: Path) -> None:
    assert names(left) == names(right) == CELLS
    for name in CELLS:
        assert_same_run(Run.open(left / "cells" / name), Run.open(right / "cells" / name))
        assert (left / "cells" / name / MEASURED).read_bytes() == (right / "cells" / name / MEASURED).read_bytes()


def test_a_killed_matrix_continues_and_ends_with_the_same_numbers(undisturbed: Path, tmp_path: Path) -> None:
    process = start(*TWO_BITS, "--folder", tmp_path)
    while not list(tmp_path.glob("cells/*/metrics.jsonl")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    printed = call(*TWO_BITS, "--folder", tmp_path)
    assert "all 3 cells are finished" in printed
    assert_same_cells(undisturbed, tmp_path)


def test_an_interrupt_stops_every_cell_and_keeps_what_is_finished(tmp_path: Path) -> None:
    process = start(*TWO_BITS, "--folder", tmp_path)
    while not list(tmp_path.glob("cells/*/metrics.jsonl")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert said == "pdqat: interrupted; what was finished is kept\n"
    for folder in (tmp_path / "cells").iterdir():
        with Run.open(folder).locked():
            pass


def test_two_matrices_at_once_share_the_work(undisturbed: Path, tmp_path: Path) -> None:
    both = [start(*TWO_BITS, "--folder", tmp_path) for _ in range(2)]
    outputs = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert_same_cells(undisturbed, tmp_path)
    finished = "".join(printed for printed, _ in outputs).count(": finished")
    assert finished == len(CELLS)


def test_jobs_share_the_cores_that_the_process_may_use(undisturbed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Resources] = []

    def executor(jobs: int, resources: Resources) -> LocalExecutor:
        seen.append(resources)
        return LocalExecutor(jobs, resources)

    monkeypatch.setattr("pdqat.paper.command.LocalExecutor", executor)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    finished = [*TWO_BITS[:-1], "2", "--folder", str(undisturbed)]
    assert main(finished) == 0
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 9)
    assert main(finished) == 0
    assert [each.threads for each in seen] == [3, 4]


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


def test_figure_1_keeps_layers_by_the_multipliers_of_the_base_and_is_drawn(tmp_path: Path) -> None:
    common = ("figure1", "--protocol", "trial", "--folder", tmp_path)
    call("paper", "run", *common, "--jobs", "2", "--only", "*-2-*")
    call("paper", "run", *common, "--only", "pdqat-output-*")
    call("paper", "show", *common)
    for name in ("figure1a", "figure1b", "figure1c"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
    entries = json.loads((tmp_path / "figure1.json").read_text())
    (base,) = (entry for entry in entries if entry["kept"] is None and entry["method"] == "pdqat-layers")
    final = {name: values[-1] for name, values in base["multipliers"].items() if name != "output"}
    ranked = sorted(final, key=lambda name: final[name])
    for entry in entries:
        if entry["kept"] is not None:
            assert sorted(entry["kept"]) == sorted(ranked[-2:] if entry["kept_largest"] else ranked[:2])
            assert entry["kept"] == {name: final[name] for name in entry["kept"]}
            assert not set(entry["kept"]) & set(entry["multipliers"])
    call("paper", "run", "duals", "--protocol", "trial", "--folder", tmp_path)
    call("paper", "show", "duals", "--protocol", "trial", "--folder", tmp_path)
    assert (tmp_path / "duals.png").read_bytes().startswith(b"\x89PNG")


def test_a_cell_that_cannot_be_trained_is_named_with_the_reason(undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cells" / "ste-2bit-seed0"
    folder.mkdir(parents=True)
    shutil.copy(undisturbed / "cells" / "ste-2bit-seed0" / "config.toml", folder)
    (folder / "last.pt").write_text("no checkpoint")
    arguments = ("paper", "run", "table1", "--protocol", "trial", "--only", "ste-2bit-*", "--folder", tmp_path)
    process = start(*arguments)
    _, said = process.communicate()
    assert process.returncode == 2
    assert said.startswith("pdqat: 1 of 1 cells failed: ste-2bit-seed0: ")
    assert "last.pt is damaged or not a torch file" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "table2"], "invalid choice: 'table2' (choose from"),
        (["run", "table1", "--only", "*-3bit-*"], "no cell of table1 fits --only '*-3bit-*'; the cells are"),
        (["run", "table1", "--jobs", "0"], "a whole number above 0 is needed, not '0'"),
        (["run", "table1", "--seeds", "x"], "a whole number above 0 is needed, not 'x'"),
        (["run", "table1", "--folder", __file__], "--folder has to be a folder, and"),
        (["run", "table1", "--protocol", "trial", "--folder", "nowhere", "--device", "moon"], "device 'moon' can't be"),
        (["show", "table1", "--folder", "nowhere"], "no cell of table1 is finished in nowhere; train them with:"),
    ],
)
def test_bad_arguments_get_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paper", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_data_that_is_not_there_is_said_once_and_before_any_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PDQAT_DATA", str(tmp_path / "nothing"))
    assert main(["paper", "run", "table1", "--folder", str(tmp_path / "folder")]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"pdqat: cifar10 is not in {tmp_path / 'nothing'}; `pdqat data cifar10` fetches it.")
    assert not (tmp_path / "folder").exists()


def test_list_says_how_far_each_cell_is(undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TWO_BITS[:4], "trial", "--folder", str(undisturbed), "--list"]) == 0
    printed = capsys.readouterr().out
    assert "ste-2bit-seed0: finished" in printed
    assert "ste-1bit-seed0: 0 of 2 epochs" in printed


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_trains_the_same_cells(undisturbed: Path, tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        command = [sys.executable, "-m", "pdqat.cli", *TWO_BITS[:7], "--executor", "ray", "--folder", str(tmp_path)]
        environment = {**os.environ, "RAY_ADDRESS": cluster.address, "RAY_USAGE_STATS_ENABLED": "0"}
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]
    assert process.returncode == 0, process.stderr
    assert_same_cells(undisturbed, tmp_path)


def test_without_a_cluster_ray_says_how_to_start_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pdqat.cli", *TWO_BITS[:7], "--executor", "ray", "--folder", str(tmp_path)]
    environment = {**os.environ, "RAY_ADDRESS": ""}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stderr == (
        "pdqat: no Ray cluster was found: start one with 'ray start --head', or set RAY_ADDRESS to its address\n"
    )
