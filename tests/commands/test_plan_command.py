"""`pdqat plan` through the command line. What plans cost and that they are the cheapest is tested on `allocate`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from finished_run import finished_run
from pdqat.allocation.offer import Offer, offer
from pdqat.cli import main
from pdqat.commands import plan as plan_command
from pdqat.config.trained import Trained
from pdqat.layers.sizes import LayerSize, layer_sizes
from pdqat.precision import DROPPED, FULL, Precision
from pdqat.runs.folder import Run
from pdqat.runs.plan_file import read_plan


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return finished_run(tmp_path_factory.mktemp("plan") / "run", layer_tolerance=0.2)


@pytest.fixture(scope="module")
def sizes(run: Run) -> dict[str, LayerSize]:
    return layer_sizes(Trained.open(run.path).problem.net)


def planned(run: Run, path: Path, *arguments: str) -> dict[str, Precision]:
    assert main(["plan", str(run.path), "--images", "20", "--out", str(path), *arguments]) == 0
    return read_plan(path)


@pytest.mark.parametrize(
    ("rank", "budget"),
    [("dual", "1.5 bits"), ("dual", "3 MBOPs"), ("distance", "3 KB"), ("random", "1.5 bits"), ("random", "3 MBOPs")],
)
def test_a_plan_keeps_to_its_budget(
    run: Run,
    sizes: dict[str, LayerSize],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rank: str,
    budget: str,
) -> None:
    path = tmp_path / "plan.toml"
    plan = planned(run, path, "--budget", budget, "--rank", rank)
    shown = capsys.readouterr().out
    assert "predicted cost" in shown
    assert f"plan: {path}" in shown
    assert path.read_text().startswith("# ")
    assert f"by {rank}" in path.read_text()
    weights = sum(sizes[layer].parameters * (bits.weight or 32) for layer, bits in plan.items())
    total = sum(size.parameters for size in sizes.values())
    operations = sum(
        sizes[layer].operations * (bits.weight or 32) * (bits.activation or 32) for layer, bits in plan.items()
    )
    used = {"bits": weights / total, "KB": weights / 8000, "MBOPs": operations / 1e6}
    amount, unit = budget.split()
    assert used[unit] <= float(amount) * (1 + 1e-6)
    assert list(plan) == list(run.summary()["plans"]["2-bit"])


def test_two_budgets_hold_at_once(run: Run, sizes: dict[str, LayerSize], tmp_path: Path) -> None:
    kilobytes = sum(size.parameters for size in sizes.values()) * 3 / 8000
    operations = sum(size.operations for size in sizes.values()) * 6 / 1e6
    plan = planned(run, tmp_path / "plan.toml", "--budget", f"{kilobytes} KB and {operations} MBOPs")
    assert sum(sizes[it].parameters * (bits.weight or 32) for it, bits in plan.items()) / 8000 <= kilobytes * 1.000001
    used = sum(sizes[it].operations * (bits.weight or 32) * (bits.activation or 32) for it, bits in plan.items())
    assert used / 1e6 <= operations * 1.000001


def test_several_budgets_are_solved_from_one_measurement(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def counted(*given: Any, **more: Any) -> Offer:
        measured.append(1)
        return offer(*given, **more)

    monkeypatch.setattr(plan_command, "offer", counted)
    run.offer_file.unlink(missing_ok=True)
    budgets = ["--budget", "1.5 bits", "--budget", "3 bits", "--budget", "3 bits and 3 MBOPs"]
    assert main(["plan", str(run.path), "--images", "20", "--out", str(tmp_path), *budgets]) == 0
    assert measured == [1]
    names = ["plan-1.5-bits.toml", "plan-3-bits-and-3-MBOPs.toml", "plan-3-bits.toml"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    alone = planned(run, tmp_path / "alone.toml", "--budget", "3 bits")
    assert read_plan(tmp_path / "plan-3-bits.toml") == alone
    shown = capsys.readouterr().out
    assert "1.5 bits" in shown
    assert f"plan: {tmp_path / 'plan-1.5-bits.toml'}" in shown


def test_another_budget_later_is_solved_from_what_was_measured_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished_run(tmp_path / "run", layer_tolerance=0.2)
    planned(run, tmp_path / "plan.toml", "--budget", "1.5 bits")
    assert "from the measurements" not in capsys.readouterr().out
    fresh = tmp_path / "fresh"
    shutil.copytree(run.path, fresh)
    (fresh / "offer.json").unlink()
    measured_anew = planned(Run(fresh), tmp_path / "anew.toml", "--budget", "3 bits")
    capsys.readouterr()

    def refuse(*_: Any, **__: Any) -> Offer:
        pytest.fail("it measured again")

    monkeypatch.setattr(plan_command, "offer", refuse)
    assert planned(run, tmp_path / "plan.toml", "--budget", "3 bits") == measured_anew
    assert f"from the measurements in {run.offer_file}" in capsys.readouterr().out


def test_plans_are_measured_and_what_was_measured_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished_run(tmp_path / "run", layer_tolerance=0.2)
    plan = planned(run, tmp_path / "plan.toml", "--budget", "2.5 bits")
    said = capsys.readouterr().out
    kept = json.loads(run.offer_file.read_text())
    losses = [trial["loss"] for trial in kept["proposed"]]
    assert f"{len(losses)} proposed plan" in said
    assert f"measured; the first, by single layers alone, has the loss {losses[0]:.4g}" in said
    trials = [*kept["alone"], *kept["proposed"]]
    changed = {layer: str(it) for layer, it in plan.items() if str(it) != kept["before"][layer]}
    (loss,) = [trial["loss"] for trial in trials if trial["changed"] == changed]
    assert loss <= losses[0]
    assert f"loss {loss:.4g} without training, using" in said
    assert f"loss {loss:.4g} without training, by loss" in (tmp_path / "plan.toml").read_text()
    monkeypatch.setattr(Trained, "open_finished", lambda *_: pytest.fail("it opened the model again"))
    assert planned(run, tmp_path / "again.toml", "--budget", "2.5 bits") == plan
    assert f"loss {loss:.4g} without training, using" in capsys.readouterr().out
    assert json.loads(run.offer_file.read_text()) == kept


def test_a_plan_for_a_target_has_only_bits_that_it_runs(tmp_path: Path) -> None:
    """DoReFa's codes of 8 bits are no signed bytes."""
    run = finished_run(tmp_path / "run", layer_tolerance=0.2, quantizer="dorefa")
    asked = ["--budget", "8 bits", "--bits", "4,8", "--rank", "dual"]
    free = planned(run, tmp_path / "free.toml", *asked)
    assert set(free.values()) == {Precision(8, 8)}
    plan = planned(run, tmp_path / "plan.toml", *asked, "--target", "onnx")
    assert set(plan.values()) == {Precision(4, 4)}


def test_a_plan_that_drops_a_branch_is_trained_and_kept(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, pinned = tmp_path / "plan.toml", "stages.1.0.conv1=0"
    asked = ["--budget", "1.5 bits", "--bits", "0,1,2", "--rank", "distance", "--pin", pinned]
    plan = planned(run, path, *asked)
    assert plan["stages.1.0.conv0"] == plan["stages.1.0.conv1"] == DROPPED
    assert planned(run, path, *asked) == plan  # from the measurements that the run keeps
    capsys.readouterr()
    after = tmp_path / "after"
    assert main(["train", "--from", str(run.path), "--plan", str(path), "--epochs", "1", "--out", str(after)]) == 0
    assert "dropped by the plan: stages.1.0.conv0, stages.1.0.conv1" in capsys.readouterr().out
    dropped = Trained.open(after).problem.net.plans["mixed"].dropped_layers
    assert {"stages.1.0.conv0", "stages.1.0.conv1"} <= set(dropped)
    assert main(["show", str(after)]) == 0
    assert main(["eval", str(after)]) == 0


def test_if_one_of_several_budgets_is_too_small_nothing_is_written(run: Run, tmp_path: Path) -> None:
    budgets = ["--budget", "3 bits", "--budget", "0.5 bits"]
    assert main(["plan", str(run.path), "--images", "20", "--out", str(tmp_path), *budgets]) == 2
    assert not list(tmp_path.iterdir())


def test_pinned_layers_keep_what_they_are_given(run: Run, tmp_path: Path) -> None:
    pins = ["--pin", "stages.0.*=8", "stages.2.0.conv1=full"]
    plan = planned(run, tmp_path / "plan.toml", "--budget", "30 bits", "--bits", "3,4", *pins)
    assert plan["stages.0.0.conv0"] == Precision(8, 8)
    assert plan["stages.2.0.conv1"] == FULL
    assert plan["stages.1.0.conv0"] in (Precision(3, 3), Precision(4, 4))


def test_excluded_layers_stay_in_full_precision_and_are_not_counted(
    run: Run, sizes: dict[str, LayerSize], tmp_path: Path
) -> None:
    plan = planned(run, tmp_path / "plan.toml", "--budget", "1.5 bits", "--exclude", "stages.0.*")
    rest = [layer for layer in plan if not layer.startswith("stages.0.")]
    assert {plan[layer] for layer in plan if layer not in rest} == {FULL}
    bits = sum(sizes[layer].parameters * (plan[layer].weight or 32) for layer in rest)
    assert 1 <= bits / sum(sizes[layer].parameters for layer in rest) <= 1.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--budget", "lots"], "a budget is an amount above 0 with a unit"),
        (["--budget", "0.9 bits"], "no plan fits into 0.9 bits: the smallest possible one takes 1 bits"),
        (["--budget", "2 bits", "--pin", "nothing=2"], "the pinned layer 'nothing' matches no layer; the layers are"),
        (["--budget", "2 bits", "--pin", "head"], "--pin takes PATTERN=VALUE, not 'head'"),
        (["--budget", "2 bits", "--bits", "9"], "bits must be from 1 to 8, not 9"),
        (["--budget", "2 bits", "--bits", "0"], "name other precisions to choose from beside 0"),
        (["--budget", "2 bits", "--pin", "stages.1.0.conv0=0"], "only the last layer of a residual branch can have"),
        (["--budget", "2 bits", "--bits", ","], "--bits must name at least one precision"),
        (["--budget", "2 bits", "--exclude", "nothing"], "the excluded layer 'nothing' matches no layer"),
        (
            ["--budget", "2 bits", "--exclude", "stages.0.*", "--pin", "stages.0.*=8"],
            "outside the excluded layers the pinned layer 'stages.0.*' matches no layer",
        ),
        (["--budget", "2 bits", "--exclude", "*"], "all layers are excluded: there is none to choose a precision for"),
        (["--budget", "2 bits", "--rank", "taste"], "unknown word 'taste'; choose one of dual, hessian"),
        (
            ["--budget", "2 bits", "--budget", "2.0 bits"],
            "a budget is given twice, to the digits that are shown: 2 bits, 2 bits",
        ),
        (["--budget", "2 bits", "--budget", "3 bits", "--out", "x.toml"], "--out must be a folder, and x.toml is none"),
        (["--frontier", "--out", "curve.txt"], "--out must end in .json, not 'curve.txt'"),
    ],
)
def test_bad_arguments_get_one_sentence(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(["plan", str(run.path), "--images", "20", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (run.path / "plan.toml").exists()


@pytest.mark.parametrize("quantizer", ["uniform", "lsq"])
def test_a_layer_with_a_step_of_its_own_is_tried_at_the_bits_of_another(tmp_path: Path, quantizer: str) -> None:
    options = {"quantizer": quantizer, "gradient": "straight-through", "layers": {"*.conv1": "4"}}
    run = finished_run(tmp_path / "run", **options)
    plan = planned(run, tmp_path / "plan.toml", "--budget", "3 bits", "--bits", "2,4")
    assert set(plan.values()) <= {Precision(2, 2), Precision(4, 4)}


def test_a_layer_that_a_run_keeps_high_stays_in_its_next_plan_and_counts(
    run: Run, sizes: dict[str, LayerSize], tmp_path: Path
) -> None:
    layers = list(run.summary()["plans"]["2-bit"])
    kept = finished_run(tmp_path / "run", plan={**dict.fromkeys(layers, "2"), "stages.0.0.conv0": "full"})
    plan = planned(kept, tmp_path / "plan.toml", "--budget", "3 bits")
    assert plan["stages.0.0.conv0"] == FULL
    assert list(plan) == layers
    total = sum(size.parameters for size in sizes.values())
    assert sum(sizes[layer].parameters * (bits.weight or 32) for layer, bits in plan.items()) <= 3 * total


def test_the_frontier_is_written_as_table_json_and_pictures(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "frontier.json"
    assert main(["plan", str(run.path), "--frontier", "--images", "20", "--bits", "2,4", "--out", str(path)]) == 0
    points = json.loads(path.read_text())
    bits = [point["average_bits"] for point in points]
    assert bits == sorted(bits)
    assert bits[0] == 2
    assert all(0 <= point["accuracy"] <= 1 for point in points)
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "accuracy without training" in capsys.readouterr().out


def test_a_run_in_full_precision_has_no_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = finished_run(tmp_path / "run", method="full")
    assert main(["plan", str(run.path), "--budget", "2 bits"]) == 2
    assert "trained full precision only: there is no low precision to plan for" in capsys.readouterr().err


def test_metrics_are_not_needed_since_the_checkpoint_has_the_multipliers(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    run.metrics_file.unlink()
    assert planned(run, tmp_path / "plan.toml", "--budget", "2 bits")
