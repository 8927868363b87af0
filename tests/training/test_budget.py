"""Bits chosen under a budget while a run trains, and tolerances that tune themselves, in a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pdqat.allocation.budget import Budget
from pdqat.allocation.replan import choose_plan
from pdqat.cli import main
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.precision import Precision
from pdqat.sensitivity.subject import Subject
from pdqat.training import Run, TrainConfig
from pdqat.training.files import load_checkpoint, save_checkpoint
from pdqat.training.setup import Setup
from same_run import assert_same_run

Small = Callable[..., TrainConfig]
Train = Callable[..., Run]

BUDGET: dict[str, Any] = {"budget": "2.5 bits", "epochs": 4, "replan": [0.25, 0.5], "layer_tolerance": 0.02}


class StopAfter:
    """A watcher that stops the training after an epoch."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def start(self, epochs: int, steps: int, done: int) -> None: ...

    def step(self, epoch: int, step: int, objective: float) -> None: ...

    def epoch(self, entry: dict[str, Any]) -> None:
        if entry["epoch"] == self._epoch:
            raise KeyboardInterrupt


def average_bits(run: Run, plan: dict[str, str]) -> float:
    net = Setup(run.config()).net
    weights = {name: layer.weight.numel() for name, layer in net.layers.items()}
    return sum(int(plan[name]) * count for name, count in weights.items()) / sum(weights.values())


@pytest.fixture
def run(tmp_path: Path, small: Small, train: Train) -> Run:
    return train(tmp_path / "run", small(**BUDGET))


def test_bits_are_chosen_at_the_given_epochs_and_the_run_ends_under_budget(run: Run) -> None:
    plans = [entry["plan"] for entry in run.metrics()]
    assert set(plans[0].values()) == {"2"}
    assert plans[1] != plans[0]
    assert plans[3] == plans[2]
    for plan in plans[1:]:
        assert 2 < average_bits(run, plan) <= 2.5
    summary = run.summary()
    assert summary["plans"] == {"mixed": plans[3]}
    assert summary["chosen_epoch"] in (3, 4), "a model of an earlier plan is not chosen"
    assert summary["budget"]["limit"] == "2.5 bits"
    assert summary["budget"]["used"] == f"{average_bits(run, plans[3]):.4g} bits"
    assert load_checkpoint(run.best)["plan"] == plans[3]


def test_the_plan_is_the_one_that_the_multipliers_before_it_ask_for(tmp_path: Path, small: Small, train: Train) -> None:
    config = small(**BUDGET)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", config, StopAfter(1))
    stopped = Run.open(tmp_path / "stopped")
    setup = Setup(config)
    setup.load(load_checkpoint(stopped.last), stopped.last)
    wanted = choose_plan(Subject(stopped, setup, stopped.metrics()), Budget.parse("2.5 bits"))
    run = train(tmp_path / "stopped")
    assert run.metrics()[1]["plan"] == {layer: str(bits) for layer, bits in wanted.precisions.items()}


def test_without_any_multiplier_above_zero_distances_decide(tmp_path: Path, small: Small, train: Train) -> None:
    run = train(tmp_path / "run", small(**{**BUDGET, "layer_tolerance": 1e6}))
    assert {each["multiplier"] for each in run.metrics()[1]["constraints"] if each["kind"] == "layer"} == {0.0}
    assert average_bits(run, run.summary()["plans"]["mixed"]) <= 2.5


def test_weights_norms_multipliers_and_optimizer_go_on_under_another_plan(small: Small) -> None:
    setup = Setup(small(**BUDGET))
    assert isinstance(setup.objective, Lagrangian)
    setup.objective.duals.multipliers.uniform_(0.1, 1)
    before = {key: value.clone() for key, value in setup.net.state_dict().items()}
    multipliers = {name: value.clone() for name, value in setup.objective.duals.named().items()}
    changed = dict.fromkeys(list(setup.plan.precisions)[:2], Precision(4, 4))
    setup.change_plan(changed)
    assert {layer: str(bits) for layer, bits in setup.plan.precisions.items()} == {
        layer: "4" if layer in changed else "2" for layer in setup.net.layers
    }
    after = setup.net.state_dict()
    assert after.keys() == before.keys()
    assert all(after[key].equal(before[key]) for key in before)
    assert isinstance(setup.objective, Lagrangian)
    assert all(value.equal(multipliers[name]) for name, value in setup.objective.duals.named().items())


def test_the_optimizer_goes_on_too(run: Run) -> None:
    steps = {float(each["step"]) for each in load_checkpoint(run.last)["optimizer"]["state"].values()}
    assert steps == {4 * 3.0}


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_stopped_and_continued_run_equals_an_undisturbed_one(
    tmp_path: Path, run: Run, train: Train, epoch: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", run.config(), StopAfter(epoch))
    assert_same_run(run, train(tmp_path / "stopped"))


def test_patience_waits_for_the_last_plan(tmp_path: Path, small: Small, train: Train) -> None:
    run = train(tmp_path / "run", small(**{**BUDGET, "patience": 1, "lr": 1e-9}))
    assert len(run.metrics()) >= 3
    assert average_bits(run, run.summary()["plans"]["mixed"]) <= 2.5


def test_layers_of_the_configuration_keep_their_precision(tmp_path: Path, small: Small, train: Train) -> None:
    run = train(tmp_path / "run", small(**BUDGET, layers={"stages.0.*": "1", "stages.1.*": "full", "head": "a8"}))
    plan = run.summary()["plans"]["mixed"]
    assert {bits for layer, bits in plan.items() if layer.startswith("stages.0.")} == {"1"}
    assert plan["head"] == "a8"
    assert not any(layer.startswith("stages.1.") for layer in plan)


def test_other_commands_take_the_plan_from_the_run(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = run.summary()["plans"]["mixed"]
    assert main(["eval", str(run.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"]["mixed"] == run.summary()["accuracy"]["mixed"]["test"]
    assert main(["sensitivity", str(run.path), "--images", "50", "--json"]) == 0
    assert {each["layer"]: each["precision"] for each in json.loads(capsys.readouterr().out)} == plan
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["show", str(run.path)]) == 0
    shown = capsys.readouterr().out
    assert f"budget: {run.summary()['budget']['used']} of 2.5 bits" in shown
    rows = [line.split() for line in shown.splitlines() if line.strip().startswith("stages")]
    assert {row[0]: row[1] for row in rows} == plan
    out = tmp_path / "next"
    assert main(["train", "--from", str(run.path), "--epochs", "1", "--out", str(out)]) == 0
    config = Run.open(out).config()
    assert (config.plan, config.budget) == (plan, None)
    assert Run.open(out).summary()["plans"] == {"mixed": plan}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--budget", "0.5 bits"], "no plan fits into 0.5 bits: the smallest possible one takes 1 bits"),
        (["--budget", "much"], "budget must be an amount above 0 with a unit, such as '2.5 bits' on average"),
        (["--budget", "2 bits", "--method", "pdqat-output"], "it needs method 'pdqat-layers' and level 'layer', not"),
        (["--budget", "2 bits", "--level", "channel"], "it needs method 'pdqat-layers' and level 'layer', not"),
        (["--budget", "2 bits", "--bits", "2", "4"], "a budget is for one plan, but bits are 2, 4"),
        (["--budget", "2 bits", "--quantizer", "uniform"], "a budget needs dorefa or dorefa-unscaled"),
        (["--budget", "2 bits", "--epochs", "1"], "there must be an epoch before bits are chosen and one after"),
        (["--budget", "2 bits", "--budget-bits", "2", "full"], "budget_bits must be precisions with quantised weights"),
        (["--budget", "2 bits", "--replan", "1"], "replan must be above 0 and below 1"),
        (["--tolerance-price", "0"], "tolerance_price must be a number above 0"),
        (["--tolerance-price", "1", "--method", "ste"], "tolerance_price is for tolerances of layers"),
        (["--tolerance-price", "1", "--layer-tolerance", "0"], "is 0 and can't tune itself"),
        (["--tolerance-price", "0.01", "--layer-tolerance", "1", "--dual-rate", "1"], "the dual rate 1 is too large"),
    ],
)
def test_bad_input_is_refused_before_there_is_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_with_another_models_plan_is_refused(run: Run, train: Train) -> None:
    run.summary_file.unlink()
    save_checkpoint(run.last, {**load_checkpoint(run.last), "plan": {"conv9": "2"}})
    with pytest.raises(InputError, match="names the layer 'conv9', which the model does not have"):
        train(run.path)


def test_tolerances_tune_themselves_and_are_reported(tmp_path: Path, small: Small, train: Train) -> None:
    config = small(epochs=3, tolerance_price=0.5, layer_tolerance=0.3, dual_rate=0.5)
    run = train(tmp_path / "run", config)
    for entry in run.metrics():
        for each in entry["constraints"]:
            if each["kind"] == "layer":
                assert each["tolerance"] == pytest.approx(0.3 * each["multiplier"] / 0.5)
                assert each["slack"] == pytest.approx(each["distance"] - each["tolerance"], abs=1e-6)
            else:
                assert each["tolerance"] == 0.3
    assert max(each["tolerance"] for each in run.metrics()[-1]["constraints"] if each["kind"] == "layer") > 0
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", config, StopAfter(2))
    assert_same_run(run, train(tmp_path / "stopped"))
