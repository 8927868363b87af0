"""Bits chosen under a budget while a run trains, and tolerances that tune themselves, in a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pdqat.allocation import allocate
from pdqat.allocation.budget import Budget
from pdqat.allocation.prices import predicted_costs
from pdqat.allocation.replan import choose_plan
from pdqat.cli import main
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.precision import Precision
from pdqat.sensitivity.subject import Subject
from pdqat.training import Run, TrainConfig
from pdqat.training.checkpoints import load_checkpoint, save_checkpoint
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
    wanted, by = choose_plan(Subject(stopped, setup, stopped.metrics()), Budget.parse("2.5 bits"))
    run = train(tmp_path / "stopped")
    assert [entry.get("bits_chosen_by") for entry in run.metrics()] == [None, by, "multipliers", None]
    assert run.metrics()[1]["plan"] == {layer: str(bits) for layer, bits in wanted.precisions.items()}


def test_without_any_multiplier_above_zero_distances_decide(tmp_path: Path, small: Small, train: Train) -> None:
    config = small(**{**BUDGET, "layer_tolerance": 1e6})
    run = train(tmp_path / "run", config)
    assert {each["multiplier"] for each in run.metrics()[1]["constraints"] if each["kind"] == "layer"} == {0.0}
    assert [entry.get("bits_chosen_by") for entry in run.metrics()] == [None, "distances", "distances", None]
    setup = Setup(config)
    setup.load(load_checkpoint(run.best), run.best)
    subject = Subject(run, setup, run.metrics())
    table = predicted_costs(subject, dict.fromkeys(subject.layers, 1.0), True, config.budget_choices(subject.layers))
    again = allocate(table, subject.sizes, Budget.parse("2.5 bits"))
    same = sum(str(bits) == run.summary()["plans"]["mixed"][layer] for layer, bits in again.precisions.items())
    assert same > len(table) / 2, "an epoch later equal prices ask for nearly the same plan"
    assert 2 < average_bits(run, run.summary()["plans"]["mixed"]) <= 2.5


def test_weights_norms_multipliers_and_optimizer_go_on_under_another_plan(small: Small) -> None:
    setup = Setup(small(**BUDGET))
    assert isinstance(setup.objective, Lagrangian)
    setup.objective.duals.multipliers.uniform_(0.1, 1)
    setup.objective.duals.smoothed.uniform_(-1, 1)
    for value in setup.net.state_dict().values():
        if value.is_floating_point():
            value.uniform_(0.1, 1)
    before = {key: value.clone() for key, value in setup.net.state_dict().items()}
    duals = setup.objective.duals
    carried = [duals.multipliers.clone(), duals.smoothed.clone()]
    changed = dict.fromkeys(list(setup.plan.precisions)[:2], Precision(4, 4))
    setup.change_plan(changed)
    assert {layer: str(bits) for layer, bits in setup.plan.precisions.items()} == {
        layer: "4" if layer in changed else "2" for layer in setup.net.layers
    }
    after = setup.net.state_dict()
    assert after.keys() == before.keys()
    assert all(after[key].equal(before[key]) for key in before)
    assert isinstance(setup.objective, Lagrangian)
    duals = setup.objective.duals
    assert duals.multipliers.equal(carried[0])
    assert duals.smoothed.equal(carried[1])


def test_the_optimizer_goes_on_too(run: Run) -> None:
    steps = {float(each["step"]) for each in load_checkpoint(run.last)["optimizer"]["state"].values()}
    assert steps == {4 * 3.0}


@pytest.mark.parametrize("epoch", [1, 2, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dual_every": 2, "dual_rule": "nupi", "dual_damping": 0.3, "dual_nu": 0.5, "norm": "tied"},
        {"tolerance_price": 0.5, "layer_tolerance": 0.3, "integer_sums": True},
    ],
    ids=["plain", "nupi within the epoch, tied norms", "tuned tolerances, integer sums"],
)
def test_a_stopped_and_continued_run_equals_an_undisturbed_one(
    tmp_path: Path, small: Small, train: Train, epoch: int, changes: dict[str, Any]
) -> None:
    config = small(**{**BUDGET, **changes})
    undisturbed = train(tmp_path / "undisturbed", config)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", config, StopAfter(epoch))
    assert_same_run(undisturbed, train(tmp_path / "stopped"))


def test_patience_waits_for_the_last_plan(tmp_path: Path, small: Small, train: Train) -> None:
    config = small(**{**BUDGET, "epochs": 12, "replan": [0.25, 0.5], "patience": 1, "lr": 1e-9})
    run = train(tmp_path / "run", config)
    assert 7 <= len(run.metrics()) < 12
    assert average_bits(run, run.summary()["plans"]["mixed"]) <= 2.5


def test_layers_of_the_configuration_keep_their_precision(tmp_path: Path, small: Small, train: Train) -> None:
    run = train(tmp_path / "run", small(**BUDGET, layers={"stages.0.*": "1", "stages.1.*": "full", "head": "a8"}))
    plan = run.summary()["plans"]["mixed"]
    assert {bits for layer, bits in plan.items() if layer.startswith("stages.0.")} == {"1"}
    assert plan["head"] == "a8"
    assert not any(layer.startswith("stages.1.") for layer in plan)


def test_the_output_keeps_its_tolerance_and_layers_get_that_of_their_bits(
    tmp_path: Path, small: Small, train: Train
) -> None:
    none = {"output_tolerance": None, "layer_tolerance": None}
    run = train(tmp_path / "run", small(**{**BUDGET, **none, "budget": "1.5 bits"}))
    plan = run.summary()["plans"]["mixed"]
    assert "1" in plan.values()
    for entry in run.metrics():
        found = {each["where"]: each["tolerance"] for each in entry["constraints"]}
        assert found.pop("") == pytest.approx(1 / 9), "of the 2 bits that the run started with"
        wanted = {layer: 1 / (2 ** int(bits) - 1) ** 2 for layer, bits in entry["plan"].items()}
        assert found == pytest.approx(wanted)


def test_choosing_the_same_plan_again_keeps_the_best_epoch(tmp_path: Path, small: Small, train: Train) -> None:
    config = small(**{**BUDGET, "budget_bits": ["2"], "layers": {"stages.0.0.conv0": "2"}})
    with pytest.raises(InputError, match="the budget leaves nothing to choose"):
        train(tmp_path / "fixed", config)
    run = train(tmp_path / "run", small(**{**BUDGET, "budget": "2 bits", "budget_bits": ["2", "3"], "lr": 1e-9}))
    assert set(run.summary()["plans"]["mixed"].values()) == {"2"}
    assert run.summary()["chosen_epoch"] == max(
        range(1, 5), key=lambda epoch: (run.metrics()[epoch - 1]["accuracy"]["mixed"], -epoch)
    )


def test_a_new_budget_goes_on_from_the_plan_with_fixed_layers(tmp_path: Path, small: Small, train: Train) -> None:
    run = train(tmp_path / "run", small(**BUDGET, layers={"stages.0.0.conv0": "8"}))
    common = ["train", "--from", str(run.path), "--epochs", "2", "--out"]
    assert main([*common, str(tmp_path / "next"), "--budget", "3.5 bits"]) == 0
    config, plan = Run.open(tmp_path / "next").config(), Run.open(tmp_path / "next").summary()["plans"]["mixed"]
    assert config.plan == run.summary()["plans"]["mixed"]
    assert plan["stages.0.0.conv0"] == "8"
    assert average_bits(run, run.summary()["plans"]["mixed"]) < average_bits(run, plan) <= 3.5
    assert main([*common, str(tmp_path / "uniform"), "--bits", "4"]) == 0
    assert Run.open(tmp_path / "uniform").config().layers == {"stages.0.0.conv0": "8"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile uses what torch advises against
def test_a_compiled_run_ends_with_the_numbers_of_an_eager_one(tmp_path: Path, small: Small, train: Train) -> None:
    changes = {**BUDGET, "epochs": 3, "replan": [0.4, 0.7]}
    eager, compiled = (train(tmp_path / str(flag), small(**changes, compile=flag)) for flag in (False, True))
    assert [entry["plan"] for entry in eager.metrics()] == [entry["plan"] for entry in compiled.metrics()]
    for one, other in zip(eager.metrics(), compiled.metrics(), strict=True):
        assert one["objective"] == pytest.approx(other["objective"], rel=1e-3)


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
        (
            ["--budget", "2 bits", "--quantizer", "uniform"],
            "a budget needs one of dorefa, dorefa-unscaled",
        ),
        (["--budget", "2 bits", "--epochs", "1"], "there must be an epoch before bits are chosen and one after"),
        (["--budget", "2 bits", "--budget-bits", "2", "full"], "budget_bits must be precisions with quantised weights"),
        (["--budget", "2 bits", "--bits", "a8"], "a budget is for layers whose weights are quantised"),
        (["--budget", "2 bits", "--replan", "1"], "replan must be above 0 and below 1"),
        (
            ["--budget", "2 bits", "--tolerance-price", "0.05", "--dual-rate", "0.1"],
            "would overshoot: tolerance / price x (dual rate) must be at most 1, but is 20 x 0.1",
        ),
        (["--tolerance-price", "0"], "tolerance_price must be a number above 0"),
        (["--tolerance-price", "1", "--method", "ste"], "tolerance_price is for tolerances of layers"),
        (["--tolerance-price", "1", "--layer-tolerance", "0"], "is 0 and can't tune itself"),
        (
            ["--tolerance-price", "0.01", "--layer-tolerance", "1", "--dual-rate", "1"],
            "would overshoot: tolerance / price x (dual rate)",
        ),
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
