"""`pdqat sensitivity` through the command line."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from pdqat.cli import main
from pdqat.training import Run


def test_layers_come_ranked_with_their_evidence(relative_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sensitivity", str(relative_run.path), "--images", "50", "--json"]) == 0
    layers = json.loads(capsys.readouterr().out)
    assert [each["score"] for each in layers] == sorted((each["score"] for each in layers), reverse=True)
    last = {each["where"]: each for each in relative_run.metrics()[-1]["constraints"]}
    first = {each["where"]: each for each in relative_run.metrics()[0]["constraints"]}
    for each in layers:
        known = last[each["layer"]]
        assert each["score"] == each["multiplier"] == known["multiplier"]
        assert (each["distance"], each["slack"], each["tolerance"]) == (
            known["distance"],
            known["slack"],
            known["tolerance"],
        )
        before, now = first[each["layer"]]["multiplier"], known["multiplier"]
        part = known["slack"] / known["tolerance"]
        assert each["off"] == pytest.approx(abs(part) if now > 0 else max(part, 0))
        assert each["change"] == pytest.approx(0 if now == before else abs(now - before) / max(now, before))
        assert each["parameters"] > 0
        assert each["operations"] > 0


def damaged(lines: list[str], how: str) -> list[str]:
    entry = json.loads(lines[-1])
    match how:
        case "a number":
            return [*lines[:-1], "5"]
        case "no list":
            return [*lines[:-1], json.dumps(entry | {"constraints": 3})]
        case "nothing known":
            return [*lines[:-1], json.dumps(entry | {"constraints": [{}]})]
        case "a word":
            constraints = [each | {"multiplier": "much"} for each in entry["constraints"]]
            return [*lines[:-1], json.dumps(entry | {"constraints": constraints})]
        case "another layer":
            constraints = [each | {"where": "nowhere"} for each in entry["constraints"]]
            return [*lines[:-1], json.dumps(entry | {"constraints": constraints})]
        case "a layer less":
            return [*lines[:-1], json.dumps(entry | {"constraints": entry["constraints"][:-1]})]
        case _:
            return lines[:1]


@pytest.mark.parametrize(
    "how", ["a number", "no list", "nothing known", "a word", "another layer", "a layer less", "cut to its first epoch"]
)
@pytest.mark.parametrize("command", [["sensitivity"], ["plan", "--budget", "3 bits"]])
def test_damaged_metrics_are_refused_in_one_sentence(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str, command: list[str]
) -> None:
    shutil.copytree(relative_run.path, tmp_path / "run")
    metrics = Run.open(tmp_path / "run").metrics_file
    metrics.write_text("\n".join(damaged(metrics.read_text().splitlines(), how)) + "\n")
    assert main([*command, str(tmp_path / "run"), "--images", "20"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "metrics.jsonl is" in said
    assert "damaged" in said


@pytest.mark.parametrize("rank", ["dual", "distance"])
def test_no_column_of_the_table_is_cut(relative_run: Run, capsys: pytest.CaptureFixture[str], rank: str) -> None:
    assert main(["sensitivity", str(relative_run.path), "--images", "20", "--rank", rank]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert "tolerance" in shown
    assert "MACs" in shown


def test_csv_and_table_hold_the_same_layers(relative_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sensitivity", str(relative_run.path), "--images", "50", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["sensitivity", str(relative_run.path), "--images", "50"]) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines() if line.strip().startswith("stages")]
    assert [line[0] for line in lines] == [row["layer"] for row in rows]
    assert "█" in shown
