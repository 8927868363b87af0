"""`pdqat sensitivity` and `pdqat plan` through the command line."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from pdqat.allocation.plan_file import check_plan, read_plan, write_plan
from pdqat.cli import main
from pdqat.errors import InputError
from pdqat.precision import FULL, Precision
from pdqat.sensitivity.subject import Subject
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
        assert each["change"] == pytest.approx(0 if now == before else abs(now - before) / max(now, before))
        assert each["parameters"] > 0
        assert each["operations"] > 0


def test_csv_and_table_hold_the_same_layers(relative_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sensitivity", str(relative_run.path), "--images", "50", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["sensitivity", str(relative_run.path), "--images", "50"]) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines() if line.strip().startswith("stages")]
    assert [line[0] for line in lines] == [row["layer"] for row in rows]
    assert "█" in shown


@pytest.mark.parametrize("rank", ["dual", "distance", "random"])
@pytest.mark.parametrize("budget", ["1.5 bits", "3 KB", "3 MBOPs"])
def test_a_plan_keeps_to_its_budget(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], rank: str, budget: str
) -> None:
    path = tmp_path / "plan.toml"
    arguments = ["--budget", budget, "--rank", rank, "--images", "50", "--out", str(path)]
    assert main(["plan", str(relative_run.path), *arguments]) == 0
    assert "predicted cost" in capsys.readouterr().out
    plan, sizes = read_plan(path), Subject(relative_run, 1).sizes
    weights = sum(sizes[layer].parameters * (each.weight or 32) for layer, each in plan.items())
    total = sum(size.parameters for size in sizes.values())
    operations = sum(
        sizes[layer].operations * (each.weight or 32) * (each.activation or 32) for layer, each in plan.items()
    )
    used = {"bits": weights / total, "KB": weights / 8000, "MBOPs": operations / 1e6}
    amount, unit = budget.split()
    assert used[unit] <= float(amount) * (1 + 1e-6)
    check_plan(plan, relative_run.summary()["plans"]["2-bit"], path)


def test_pinned_layers_keep_what_they_are_given(relative_run: Run, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    pins = ["stages.0.*=8", "stages.2.0.conv1=full"]
    arguments = ["--budget", "30 bits", "--images", "50", "--bits", "1,2", "--out", str(path), "--pin", *pins]
    assert main(["plan", str(relative_run.path), *arguments]) == 0
    plan = read_plan(path)
    assert plan["stages.0.0.conv0"] == Precision(8, 8)
    assert plan["stages.2.0.conv1"] == FULL
    assert plan["stages.1.0.conv0"] == Precision(2, 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--budget", "lots"], "a budget is an amount above 0 with a unit"),
        (["--budget", "0.9 bits"], "no plan fits into 0.9 bits: the smallest possible one takes 1 bits"),
        (["--budget", "2 bits", "--pin", "nothing=2"], "the pinned layer 'nothing' matches no layer; the layers are"),
        (["--budget", "2 bits", "--pin", "head"], "--pin takes PATTERN=PRECISION, not 'head'"),
        (["--budget", "2 bits", "--bits", "9"], "bits must be from 1 to 8, not 9"),
        (["--budget", "2 bits", "--bits", ","], "--bits must name at least one precision"),
        (["--budget", "2 bits", "--rank", "taste"], "unknown ranking 'taste'; choose one of dual, hessian"),
    ],
)
def test_bad_arguments_get_one_sentence(
    relative_run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(["plan", str(relative_run.path), "--images", "20", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (relative_run.path / "plan.toml").exists()


def test_an_unfinished_run_has_no_ranking(
    relative_run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(relative_run.path, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    assert main(["sensitivity", str(tmp_path / "run")]) == 2
    assert "is not finished" in capsys.readouterr().err


def test_a_plan_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = {"a.b": Precision(4, 8), "c": FULL, "d": Precision(None, 2)}
    write_plan(tmp_path / "plan.toml", plan, "by hand")
    assert read_plan(tmp_path / "plan.toml") == plan


@pytest.mark.parametrize("text", ["", "layers = 3", "[layers]", "[other]\na = '2'", "[layers]\na = '9'", "no toml"])
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="plan"):
        read_plan(path)


def test_a_plan_of_another_model_is_refused() -> None:
    path = Path("plan.toml")
    with pytest.raises(InputError, match="it names 'x', which the model has not"):
        check_plan(["a", "x"], ["a"], path)
    with pytest.raises(InputError, match="it says nothing of 'b'"):
        check_plan(["a"], ["a", "b"], path)
