"""`pdqat train --budget`: its options, and what other commands make of such a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import assert_refused_without_a_folder
from configured import build, train
from pdqat import (
    Lagrangian,
    Precision,
)
from pdqat.cli import main
from pdqat.config.new_run import Given, new_run
from pdqat.config.presets import config_of
from pdqat.config.problem import replanning_of
from pdqat.config.train_config import TrainConfig
from pdqat.runs.folder import Run

FIRST = "stages.0.0.conv0"
TINY: dict[str, Any] = {"train_images": 32, "batch_size": 16, "validation": 0.03, "epochs": 2}


def test_layers_of_the_configuration_keep_their_precision() -> None:
    layers = {"stages.0.*": "1", "stages.1.*": "full", "head": "a8"}
    config = TrainConfig(**TINY, budget="2.5 bits", replan=[0.5], layers=layers)
    built, replanning = build(config), replanning_of(config)
    assert replanning is not None
    assert isinstance(built.problem, Lagrangian)
    plan = built.problem.net.plans["mixed"].as_text()
    precisions = replanning.choose(built.problem, built.loaders.validation).solution.precisions
    assert {bits for layer, bits in precisions.items() if layer.startswith("stages.0.")} == {Precision(1, 1)}
    assert plan["head"] == "a8"
    assert "head" not in precisions
    assert not any(layer.startswith("stages.1.") for layer in plan)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    options: dict[str, Any] = {"bits": ["1"], "budget": "2.5 bits", "budget_bits": ["2", "4"], "replan": [0.5]}
    config = TrainConfig(**TINY, **options, layers={FIRST: "8"})
    return train(tmp_path_factory.mktemp("budget") / "run", config)


def test_other_commands_take_the_plan_from_the_run(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = run.summary()["plans"]["mixed"]
    assert set(plan.values()) <= {"2", "4", "8"}
    assert main(["eval", str(run.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"]["mixed"] == run.summary()["accuracy"]["mixed"]["test"]
    assert main(["sensitivity", str(run.path), "--images", "20", "--rank", "distance", "--json"]) == 0
    assert {layer["layer"]: layer["precision"] for layer in json.loads(capsys.readouterr().out)} == plan
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["show", str(run.path)]) == 0
    shown = capsys.readouterr().out
    assert f"budget: {run.summary()['budget']['used']} of 2.5 bits" in shown
    rows = [line.split() for line in shown.splitlines() if line.strip().startswith("stages")]
    assert {row[0]: row[1] for row in rows} == plan
    out = tmp_path / "next"
    assert main(["train", "--from", str(run.path), "--epochs", "1", "--out", str(out)]) == 0
    config = config_of(Run.open(out))
    assert (config.plan, config.budget) == (plan, None)
    assert Run.open(out).summary()["plans"] == {"mixed": plan}


def test_a_new_budget_goes_on_from_the_plan_with_fixed_layers(run: Run, tmp_path: Path) -> None:
    common = ["train", "--from", str(run.path), "--epochs", "2", "--out"]
    bits = ["--budget", "4 bits", "--budget-bits", "3", "4"]
    assert main([*common, str(tmp_path / "next"), *bits]) == 0
    config, plan = config_of(Run.open(tmp_path / "next")), Run.open(tmp_path / "next").summary()["plans"]["mixed"]
    assert config.plan == run.summary()["plans"]["mixed"]
    assert plan.pop(FIRST) == "8"
    assert set(plan.values()) <= {"3", "4"}
    uniform = new_run(Given({"bits": ["4"]}, source=run.path, out=tmp_path / "uniform")).config
    assert (uniform.layers, uniform.plan) == ({FIRST: "8"}, {})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--budget", "0.5 bits"], "no plan fits into 0.5 bits: the smallest possible one takes 1 bits"),
        (["--budget", "much"], "budget must be an amount above 0 with a unit, such as '2.5 bits' on average"),
        (["--budget", "2 bits", "--method", "pdqat-output"], "it needs method 'pdqat-layers' and level 'layer', not"),
        (["--budget", "2 bits", "--level", "channel"], "it needs method 'pdqat-layers' and level 'layer', not"),
        (["--budget", "2 bits", "--bits", "2", "4"], "a budget is for one plan, but bits are 2, 4"),
        (["--budget", "2 bits", "--epochs", "1"], "there must be an epoch before bits are chosen and one after"),
        (["--budget", "2 bits", "--budget-bits", "2", "full"], "budget_bits must be precisions with quantised weights"),
        (["--budget", "2 bits", "--bits", "a8"], "a budget is for layers whose weights are quantised"),
        (["--budget", "2 bits", "--replan", "1"], "replan must be above 0 and below 1"),
        (
            ["--budget", "2.5 bits", "--budget-bits", "2", "--layers", "stages.0.0.conv0=2"],
            "the budget leaves nothing to choose",
        ),
        (
            ["--budget", "2 bits", "--tolerance-price", "0.05", "--dual-rate", "0.1"],
            "would overshoot: tolerance / price x dual rate must be at most 1, but is 20 x 0.1",
        ),
        (["--tolerance-price", "0"], "tolerance_price must be a number above 0"),
        (
            ["--tolerance-price", "1", "--method", "ste"],
            "tolerance_price is of constrained training, which method 'ste' is not",
        ),
        (["--tolerance-price", "1", "--layer-tolerance", "0"], "is 0 and can't tune itself"),
        (
            ["--tolerance-price", "0.01", "--layer-tolerance", "1", "--dual-rate", "1"],
            "would overshoot: tolerance / price x dual rate",
        ),
    ],
)
def test_bad_input_is_refused_before_there_is_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert_refused_without_a_folder(tmp_path, capsys, arguments, complaint)
