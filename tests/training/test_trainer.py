"""What a training does and writes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from configured import build, small, train
from pdqat.batches import pairs
from pdqat.config.presets import config_of
from pdqat.evaluation import evaluate
from pdqat.lagrangian import Lagrangian
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run
from pdqat.task import Problem
from pdqat.training.callbacks import Callback
from pdqat.training.state import with_state


class Log(Callback):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.started: tuple[int, int | None, int] | None = None
        self.steps: list[tuple[int, int, float]] = []
        self.entries: list[dict[str, Any]] = []

    def start(self, epochs: int, steps: int | None, done: int) -> None:
        self.started = epochs, steps, done

    def step(self, epoch: int, step: int, objective: float) -> None:
        self.steps.append((epoch, step, objective))

    def epoch(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)


def loaded(run: Run, checkpoint: Path) -> Problem:
    return with_state(build(config_of(run)).problem, load_checkpoint(checkpoint), f"the checkpoint {checkpoint}")


def lagrangian(problem: Problem) -> Lagrangian:
    assert isinstance(problem, Lagrangian)
    return problem


@pytest.mark.parametrize(
    ("changes", "views", "constraints"),
    [
        ({}, ["full", "2-bit"], ["output", *["layer"] * 8]),
        ({"method": "pdqat-output", "bits": ["2", "w4a8"]}, ["full", "2-bit", "w4a8"], ["output", "output"]),
        ({"method": "ste", "bits": ["1", "4"]}, ["1-bit", "4-bit"], []),
        ({"method": "full"}, ["full"], []),
        ({"level": "block", "blocks": ["stages.1.0"]}, ["full", "2-bit"], ["output", "block"]),
        ({"level": "channel"}, ["full", "2-bit"], ["output", *["channel"] * 8]),
    ],
)
def test_metrics_are_as_documented(
    tmp_path: Path, changes: dict[str, Any], views: list[str], constraints: list[str]
) -> None:
    run = train(tmp_path / "run", small(**changes))
    lines = run.metrics_file.read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
    for line in lines:
        entry = json.loads(line)
        keys = ["epoch", "lr", "objective", "loss", "metric", "accuracy", "constraints"]
        assert [key for key in entry if key != "flat_inputs"] == keys, "and no time in it"
        assert entry["metric"] == "accuracy"
        assert list(entry["accuracy"]) == views
        assert all(0 <= value <= 1 for value in entry["accuracy"].values())
        assert [bound["kind"] for bound in entry["constraints"]] == constraints
        for bound in entry["constraints"]:
            assert list(bound) == [
                *("name", "kind", "where", "view", "tolerance", "distance", "slack", "multiplier", "satisfied")
            ]
            channels = bound["kind"] == "channel"
            numbers = {key: bound[key] if channels else [bound[key]] for key in ("distance", "slack", "multiplier")}
            slacks = [value - bound["tolerance"] for value in numbers["distance"]]
            assert numbers["slack"] == pytest.approx(slacks, abs=1e-6)
            assert all(value >= 0 for value in numbers["multiplier"])
            assert bound["satisfied"] is all(value <= 0 for value in numbers["slack"])
    summary = run.summary()
    assert list(summary["accuracy"]) == views
    assert [bound["kind"] for bound in summary["constraints"]] == constraints


def test_callbacks_are_told_what_is_written(tmp_path: Path) -> None:
    log = Log()
    run = train(tmp_path / "run", small(batch_size=16), [log])
    assert log.started == (2, 12, 0)
    assert log.entries == run.metrics()
    assert [(epoch, step) for epoch, step, _ in log.steps] == [(1, 10), (1, 12), (2, 10), (2, 12)]
    means = [objective for _, step, objective in log.steps if step == 12]
    assert means == [entry["objective"] for entry in run.metrics()]


def test_the_trainer_is_a_plain_loop_over_public_parts(tmp_path: Path) -> None:
    """Adam without weight decay, the scheduled rate, one dual step an epoch on the mean distances of its batches."""
    config = small(optimizer="adam", milestones=[0.5], decay=0.5)
    run = train(tmp_path / "run", config)
    built = build(config)
    problem, batches = lagrangian(built.problem), built.loaders.training
    generator: torch.Generator = batches.generator  # type: ignore[attr-defined]
    optimizer = torch.optim.Adam(problem.net.parameters())
    multipliers = problem.duals.multipliers
    for epoch, rate in enumerate([config.lr, config.lr / 2]):
        optimizer.param_groups[0]["lr"] = rate
        generator.manual_seed(epoch)
        distances, values = [], []
        for inputs, target in pairs(batches):
            optimizer.zero_grad()
            terms = problem.terms(inputs, target)
            value = terms.loss + (multipliers * (terms.distances - problem.tolerances)).sum()
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            values.append(value.item())
            distances.append(terms.distances.detach())
        slacks = torch.stack(distances).mean(0) - problem.tolerances
        multipliers.copy_((multipliers + 0.5 * slacks).clamp(min=0))
        entry = run.metrics()[epoch]
        assert entry["lr"] == rate
        assert entry["objective"] == pytest.approx(sum(values) / len(values), rel=1e-5)
        assert [bound["multiplier"] for bound in entry["constraints"]] == pytest.approx(multipliers.tolist(), abs=1e-6)
    last = load_checkpoint(run.last)
    weights = problem.net.state_dict()
    assert last["model"].keys() == weights.keys()
    for key, value in weights.items():
        torch.testing.assert_close(last["model"][key], value, rtol=1e-4, atol=1e-5)


def test_fresh_slacks_are_those_of_the_trained_weights_on_all_training_images(tmp_path: Path) -> None:
    """Tolerances of 0: no slack is below 0."""
    config = small(epochs=1, dual_slack="fresh", output_tolerance=0.0, layer_tolerance=0.0)
    run = train(tmp_path / "run", config)
    problem = lagrangian(loaded(run, run.last)).eval()
    inputs, targets = zip(*pairs(build(config).loaders.plain_training), strict=True)
    with torch.no_grad():
        distances = problem.terms(torch.cat(inputs), torch.cat(targets)).distances
    starts = torch.tensor([bound.first_multiplier for bound in problem.bounds])
    torch.testing.assert_close(problem.duals.multipliers, starts + 0.5 * distances, rtol=1e-5, atol=1e-6)
    assert (problem.duals.multipliers > starts).any()


def test_multipliers_move_every_n_steps_across_epochs(tmp_path: Path) -> None:
    """Of 6 steps every 4th: the multipliers rest in the first epoch and move in the second."""
    entries = train(tmp_path / "run", small(dual_every=4, layer_tolerance=0.0)).metrics()
    starts = [1.0] + [0.0] * 8
    assert [bound["multiplier"] for bound in entries[0]["constraints"]] == starts
    assert [bound["multiplier"] for bound in entries[1]["constraints"]] != starts


def test_the_summary_is_of_the_best_epoch(tmp_path: Path) -> None:
    """The best mean over the low-precision views, whichever epoch that is."""
    config = small(method="pdqat-output", bits=["1", "4"], epochs=3, dual_rate=0.0)
    run = train(tmp_path / "run", config)
    entries, summary = run.metrics(), run.summary()
    means = [(entry["accuracy"]["1-bit"] + entry["accuracy"]["4-bit"]) / 2 for entry in entries]
    best = means.index(max(means)) + 1
    assert summary["chosen_epoch"] == load_checkpoint(run.best)["epoch"] == best
    entry = entries[best - 1]
    assert {view: parts["validation"] for view, parts in summary["accuracy"].items()} == entry["accuracy"]
    assert summary["constraints"] == entry["constraints"]
    problem = loaded(run, run.best)
    assert evaluate(problem, build(config).loaders.test or []).scores == {
        view: parts["test"] for view, parts in summary["accuracy"].items()
    }


def test_the_summary_counts_and_names(tmp_path: Path) -> None:
    config = small(epochs=1, bits=["2", "w4a8"], layers={"stages.0.0.*": "full", "head": "8"})
    summary = train(tmp_path / "run", config).summary()
    assert list(summary) == [
        *("metric", "accuracy", "constraints", "plans", "left_alone", "parameters"),
        *("method", "epochs", "chosen_epoch", "seconds", "compiled", "processor", "processes", "versions"),
    ]
    assert summary["parameters"] == 19_810, "of the plain model, whatever the plans add"
    assert summary["plans"]["w4a8"]["stages.1.0.conv0"] == "w4a8"
    assert summary["plans"]["2-bit"]["head"] == summary["plans"]["w4a8"]["head"] == "8"
    assert summary["left_alone"] == {
        "stem": "first layer: full precision unless a rule names it",
        "stages.0.0.conv0": "full precision by rule",
        "stages.0.0.conv1": "full precision by rule",
    }
    assert summary["versions"].keys() == {"pdqat", "torch", "python"}
    assert summary["seconds"] > 0
    assert summary["compiled"] is False


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile uses what torch advises against
def test_a_compiled_run_has_the_numbers_of_an_eager_one(tmp_path: Path) -> None:
    eager, compiled = (train(tmp_path / str(how), small(compile=how)).metrics() for how in (False, True))
    for ours, theirs in zip(compiled, eager, strict=True):
        assert ours["objective"] == pytest.approx(theirs["objective"], rel=1e-3)
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
