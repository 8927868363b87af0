"""`pdqat paper` on cells that are finished: what it shows, and what it refuses."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from configured import build, create
from finished_cell import MULTIPLIERS, finish, train_here
from pdqat.cli import main
from pdqat.experiments.cells import Kept
from pdqat.experiments.executors import LocalExecutor, Resources
from pdqat.experiments.results import OUTPUT
from pdqat.paper.protocols import PROTOCOLS
from pdqat.paper.suites.methods import baseline, layers, output
from pdqat.paper.suites.paper import DUALS_TOLERANCE, FIGURE_1_TOLERANCE

TRIAL = PROTOCOLS["trial"]
BASELINE = ["paper", "run", "table1", "--protocol", "trial", "--only", "ste-2bit-*"]


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A folder with one finished cell."""
    cell = baseline(2, 0)
    finish(create(cell.run(tmp_path).path, cell.config(TRIAL, tmp_path)).path)
    return tmp_path


def test_jobs_share_the_cores_that_the_process_may_use(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Resources] = []

    def executor(jobs: int, resources: Resources) -> LocalExecutor:
        seen.append(resources)
        return LocalExecutor(jobs, resources)

    monkeypatch.setattr("pdqat.commands.paper.LocalExecutor", executor)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    again = [*BASELINE, "--jobs", "2", "--folder", str(finished)]
    assert main(again) == 0
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 9)
    assert main(again) == 0
    assert [resources.threads for resources in seen] == [3, 4]


def test_figure_1_keeps_layers_by_the_multipliers_of_the_base_and_is_drawn(tmp_path: Path) -> None:
    base, unconstrained = layers(1, 0, FIGURE_1_TOLERANCE), output(1, 0)
    largest, smallest = (dataclasses.replace(base, kept=Kept(base, 2, which)) for which in (True, False))
    names = [bound.where for bound in build(base.config(TRIAL, tmp_path)).problem.bounds if bound.where]
    multipliers = {name: (7 * index % len(names) + 1) / 100 for index, name in enumerate(names)}
    for cell in (base, unconstrained, smallest):
        finish(create(cell.run(tmp_path).path, cell.config(TRIAL, tmp_path)).path, {OUTPUT: 1.0, **multipliers}, bits=1)
    train_here([largest], TRIAL, tmp_path)
    show = ["paper", "show", "figure1", "--protocol", "trial", "--folder", str(tmp_path)]
    assert main(show) == 0
    for name in ("figure1a", "figure1b", "figure1c"):
        assert_drawn(tmp_path / name)
    entries = json.loads((tmp_path / "figure1.json").read_text())
    ranked = sorted(multipliers, key=lambda name: multipliers[name])
    by_choice = {entry["kept_largest"]: entry for entry in entries if entry["kept"] is not None}
    assert by_choice[True]["kept"] == {name: multipliers[name] for name in ranked[-2:]}
    assert by_choice[False]["kept"] == {name: multipliers[name] for name in ranked[:2]}
    constrained = set(by_choice[True]["multipliers"])
    assert constrained == {OUTPUT, *names} - set(by_choice[True]["kept"]), "layers in full precision are not"


def test_the_way_of_multipliers_is_drawn(tmp_path: Path) -> None:
    cell = layers(2, 0, DUALS_TOLERANCE)
    finish(create(cell.run(tmp_path).path, cell.config(TRIAL, tmp_path)).path, {OUTPUT: 1.0, **MULTIPLIERS})
    assert main(["paper", "show", "duals", "--protocol", "trial", "--folder", str(tmp_path)]) == 0
    assert_drawn(tmp_path / "duals")


def assert_drawn(path: Path) -> None:
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in path.with_suffix(".svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "table2"], "unknown word 'table2' (did you mean table1?); choose one of table1, "),
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


def test_a_suite_is_trained_under_its_own_protocol_unless_another_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--only", "*ste-2bit-seed0", "--folder", str(tmp_path), "--list"]
    for arguments, epochs in ((["table1"], 10), (["tiny"], 30), (["tiny", "--protocol", "trial"], 2)):
        assert main(["paper", "run", *arguments, *only]) == 0
        assert f"ste-2bit-seed0: 0 of {epochs} epochs" in capsys.readouterr().out


def test_list_says_how_far_each_cell_is(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASELINE[:5], "--folder", str(finished), "--list"]) == 0
    printed = capsys.readouterr().out
    assert "ste-2bit-seed0: finished" in printed
    assert "ste-1bit-seed0: 0 of 2 epochs" in printed
