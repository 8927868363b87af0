"""`pdqat report`, and the report that every training writes."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from command_line import Finished, refusal
from finished_run import finished_run
from pdqat.cli import main
from pdqat.runs.folder import Run


def runs_in(path: Path) -> list[dict[str, Any]]:
    match = re.search(r'id="document">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    runs: list[dict[str, Any]] = json.loads(match.group(1))["runs"]
    return runs


@pytest.fixture(scope="module")
def hand_made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with one plan, which can be ranked and planned for."""
    return finished_run(tmp_path_factory.mktemp("report") / "hand-made")


def test_training_ends_with_a_report_of_its_own_numbers(finished: Finished) -> None:
    (made,) = runs_in(finished.run.report_file)
    summary = finished.run.summary()
    assert made["about"]["data"] == "digits"
    assert {row["view"]: row["by_part"]["test"] for row in made["scores"]["rows"]} == pytest.approx(
        {view: parts["test"] for view, parts in summary["accuracy"].items()}, rel=1e-5
    )
    assert len(made["history"]["epochs"]) == 2
    assert len(made["constraints"]) == len(summary["constraints"])
    assert made["provenance"]["commands"] == finished.run.commands()
    assert made["provenance"]["commands"][0].startswith("pdqat train --epochs 2 --bits 2 w4a8 ")
    assert made["provenance"]["configuration"] == finished.run.config_file.read_text()
    assert "plans" in made["missing"]["ranking"], "it has two"


def test_report_shows_all_of_a_run(hand_made: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(hand_made.path)]) == 0
    assert capsys.readouterr().out == f"report: {hand_made.report_file}\n"
    (made,) = runs_in(hand_made.report_file)
    assert set(made["missing"]) == {"verification"}
    assert len(made["ranking"]["scores"]) == 6
    assert len(made["frontier"]["points"]) > 4
    assert made["choices"]["classes"] == [str(digit) for digit in range(10)]


def test_several_runs_are_written_into_one_page(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copies = [str(files_of(finished.run, tmp_path / name).path) for name in ("one", "two", "again/two")]
    assert main(["report", *copies]) == 0
    names = [run["name"] for run in runs_in(tmp_path / "report.html")]
    assert names == ["one", *copies[1:]], "those of one name are called by their paths"


def files_of(run: Run, path: Path) -> Run:
    """A copy without checkpoints, as results are kept."""
    return Run.open(shutil.copytree(run.path, path, ignore=shutil.ignore_patterns("*.pt")))


def test_without_checkpoints_the_files_are_reported_on_and_that_is_said(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = files_of(finished.run, tmp_path / "files")
    assert main(["report", str(run.path), "-o", str(tmp_path / "page.html")]) == 0
    assert "files: from its files alone, since there is no checkpoint" in capsys.readouterr().out
    (made,) = runs_in(tmp_path / "page.html")
    assert {"scores", "history", "constraints", "plan", "provenance"} <= set(made)
    assert "no checkpoint" in made["missing"]["noise"]


def test_a_report_that_fails_leaves_a_training_finished(unfinished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished.report_file.unlink()
    unfinished.report_file.mkdir()
    assert main(["train", "--resume", str(unfinished.path)]) == 0
    assert f"no report: can't write {unfinished.report_file}" in capsys.readouterr().out
    assert unfinished.summary()["epochs"] == 2
    assert len(unfinished.commands()) == 2


def test_what_is_no_finished_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unfinished: Run
) -> None:
    assert "not a run folder" in refusal(capsys, "report", tmp_path)
    assert "is not finished" in refusal(capsys, "report", unfinished.path)
    assert "no folder" in refusal(capsys, "report", unfinished.path, "-o", tmp_path / "nowhere" / "page.html")


@pytest.mark.parametrize("name", ["best.pt", "command.txt", "config.toml", "exports.json"])
def test_a_page_is_written_over_no_file_of_a_run(hand_made: Run, capsys: pytest.CaptureFixture[str], name: str) -> None:
    file = hand_made.path / name
    before = file.read_bytes() if file.exists() else None
    said = refusal(capsys, "report", hand_made.path, "--out", file)
    assert f"{name} is a file of a run, which needs it as it is" in said
    assert (file.read_bytes() if file.exists() else None) == before
