"""`pdqat sensitivity` through the command line."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from finished_run import EPOCHS, finished_run
from pdqat.cli import main
from pdqat.runs.folder import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return finished_run(tmp_path_factory.mktemp("sensitivity") / "run", layer_tolerance=0.2)


def test_layers_come_ranked_with_their_evidence(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """The evidence is that of the best checkpoint, as `pdqat show` prints it; the change is that up to it."""
    assert main(["sensitivity", str(run.path), "--json"]) == 0
    layers = json.loads(capsys.readouterr().out)
    assert [layer["score"] for layer in layers] == sorted((layer["score"] for layer in layers), reverse=True)
    known = {entry["where"]: entry for entry in run.summary()["constraints"]}
    assert {layer["layer"] for layer in layers} == set(known) - {""}
    for layer in layers:
        entry = known[layer["layer"]]
        assert layer["score"] == layer["multiplier"] == entry["multiplier"]
        for key in ("distance", "slack", "tolerance"):
            assert layer[key] == pytest.approx(entry[key], rel=1e-4)
        assert layer["off"] == pytest.approx(abs(layer["slack"]) / layer["tolerance"])
        assert layer["change"] == pytest.approx(0.75), "from a quarter to all of it"
        assert layer["parameters"] > 0
        assert layer["operations"] > 0


def test_what_came_after_the_best_epoch_does_not_count(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    copied = Run.open(tmp_path / "run")
    later = [{**entry, "epoch": EPOCHS + 1, "constraints": []} for entry in copied.metrics()[-1:]]
    copied.write_metrics([*copied.metrics(), *later])
    copied.write_summary({**copied.summary(), "epochs": EPOCHS + 1})
    shown = []
    for folder in (run.path, copied.path):
        assert main(["sensitivity", str(folder), "--images", "20", "--json"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


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
            constraints = [bound | {"multiplier": "much"} for bound in entry["constraints"]]
            return [*lines[:-1], json.dumps(entry | {"constraints": constraints})]
        case "another layer":
            constraints = [bound | {"where": "nowhere"} for bound in entry["constraints"]]
            return [*lines[:-1], json.dumps(entry | {"constraints": constraints})]
        case "a layer less":
            return [*lines[:-1], json.dumps(entry | {"constraints": entry["constraints"][:-1]})]
        case _:
            return lines[:1]


@pytest.mark.parametrize(
    "how", ["a number", "no list", "nothing known", "a word", "another layer", "a layer less", "cut to its first epoch"]
)
def test_damaged_metrics_are_refused_in_one_sentence(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    metrics = Run.open(tmp_path / "run").metrics_file
    metrics.write_text("\n".join(damaged(metrics.read_text().splitlines(), how)) + "\n")
    assert main(["sensitivity", str(tmp_path / "run"), "--images", "20"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "metrics.jsonl is" in said
    assert "damaged" in said


def test_an_unfinished_run_has_no_ranking(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    assert main(["sensitivity", str(tmp_path / "run")]) == 2
    assert "is not finished" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["ste", "pdqat-output"])
def test_a_run_without_layer_constraints_is_ranked_by_distance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    other = finished_run(tmp_path / "run", method=method)
    assert main(["sensitivity", str(other.path), "--images", "20"]) == 2
    assert "has no layer multipliers: train with layer constraints (method pdqat-layers" in capsys.readouterr().err
    assert main(["sensitivity", str(other.path), "--images", "20", "--rank", "distance", "--json"]) == 0
    layers = {layer["layer"] for layer in json.loads(capsys.readouterr().out)}
    assert layers == set(other.summary()["plans"]["2-bit"])


@pytest.mark.parametrize("rank", ["dual", "distance"])
def test_no_column_of_the_table_is_cut(run: Run, capsys: pytest.CaptureFixture[str], rank: str) -> None:
    assert main(["sensitivity", str(run.path), "--images", "20", "--rank", rank]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert "tolerance" in shown
    assert "MACs" in shown


def test_csv_and_table_hold_the_same_layers(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sensitivity", str(run.path), "--images", "20", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["sensitivity", str(run.path), "--images", "20"]) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines() if line.strip().startswith("stages")]
    assert [line[0] for line in lines] == [row["layer"] for row in rows]
    assert "█" in shown
