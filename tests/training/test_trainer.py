import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pdqat import data
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.training import Run, TrainConfig
from pdqat.training.checkpoints import load_checkpoint
from pdqat.training.evaluation import evaluate
from pdqat.training.setup import Setup

Small = Callable[..., TrainConfig]
Train = Callable[..., Run]


class Log:
    """A watcher that remembers what it was told."""

    def __init__(self) -> None:
        self.started: tuple[int, int, int] | None = None
        self.steps: list[tuple[int, int, float]] = []
        self.entries: list[dict[str, Any]] = []

    def start(self, epochs: int, steps: int, done: int) -> None:
        self.started = epochs, steps, done

    def step(self, epoch: int, step: int, objective: float) -> None:
        self.steps.append((epoch, step, objective))

    def epoch(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)


def loaded(run: Run, checkpoint: Path) -> Setup:
    setup = Setup(run.config())
    setup.load(load_checkpoint(checkpoint), checkpoint)
    return setup


def lagrangian(setup: Setup) -> Lagrangian:
    assert isinstance(setup.objective, Lagrangian)
    return setup.objective


def training_images(config: TrainConfig) -> tuple[Tensor, Tensor]:
    """All training images of a run on digits as one batch, as they are."""
    digits = data.load("digits")
    chosen = data.split(digits, config.validation, config.seed)[0][: config.train_images]
    mean, std = torch.tensor(digits.mean), torch.tensor(digits.std)
    return (digits.images[chosen] / 255 - mean) / std, digits.labels[chosen]


def pixels(batches: Iterable[tuple[Tensor, Tensor]]) -> list[bytes]:
    """The images of batches as they were before they were normalised, in an order that tells nothing."""
    digits = data.load("digits")
    images = torch.cat([images for images, _ in batches])
    raw = 255 * (images * torch.tensor(digits.std) + torch.tensor(digits.mean))
    return sorted(image.numpy().tobytes() for image in raw.round().to(torch.uint8))


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
    tmp_path: Path, small: Small, train: Train, changes: dict[str, Any], views: list[str], constraints: list[str]
) -> None:
    run = train(tmp_path / "run", small(**changes))
    lines = run.metrics_file.read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
    for line in lines:
        entry = json.loads(line)
        assert list(entry) == ["epoch", "lr", "objective", "loss", "accuracy", "constraints"], "and no time in it"
        assert list(entry["accuracy"]) == views
        assert all(0 <= value <= 1 for value in entry["accuracy"].values())
        assert [each["kind"] for each in entry["constraints"]] == constraints
        for each in entry["constraints"]:
            assert list(each) == [
                *("name", "kind", "where", "view", "tolerance", "distance", "slack", "multiplier", "satisfied")
            ]
            channels = each["kind"] == "channel"
            numbers = {key: each[key] if channels else [each[key]] for key in ("distance", "slack", "multiplier")}
            slacks = [value - each["tolerance"] for value in numbers["distance"]]
            assert numbers["slack"] == pytest.approx(slacks, abs=1e-6)
            assert all(value >= 0 for value in numbers["multiplier"])
            assert each["satisfied"] is all(value <= 0 for value in numbers["slack"])
    summary = run.summary()
    assert list(summary["accuracy"]) == views
    assert [each["kind"] for each in summary["constraints"]] == constraints


def test_the_watcher_is_told_what_is_written(tmp_path: Path, small: Small, train: Train) -> None:
    log = Log()
    run = train(tmp_path / "run", small(batch_size=16), log)
    assert log.started == (2, 12, 0)
    assert log.entries == run.metrics()
    assert [(epoch, step) for epoch, step, _ in log.steps] == [(1, 10), (1, 12), (2, 10), (2, 12)]
    means = [objective for _, step, objective in log.steps if step == 12]
    assert means == [entry["objective"] for entry in run.metrics()]


def test_the_trainer_is_a_plain_loop_over_public_parts(tmp_path: Path, small: Small, train: Train) -> None:
    """Adam without weight decay, the scheduled rate, one dual step an epoch on the mean distances of its batches."""
    config = small(milestones=[0.5], decay=0.5)
    run = train(tmp_path / "run", config)
    setup = Setup(config)
    objective = lagrangian(setup)
    optimizer = torch.optim.Adam(setup.net.parameters())
    multipliers = objective.duals.multipliers
    for epoch, rate in enumerate([config.lr, config.lr / 2]):
        optimizer.param_groups[0]["lr"] = rate
        distances, values = [], []
        for inputs, target in setup.training_batches(epoch):
            optimizer.zero_grad()
            terms = objective.terms(inputs, target)
            value = terms.loss + (multipliers * (terms.distances - objective.tolerances)).sum()
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            values.append(value.item())
            distances.append(terms.distances.detach())
        slacks = torch.stack(distances).mean(0) - objective.tolerances
        multipliers.copy_((multipliers + objective.duals.rate * slacks).clamp(min=0))
        entry = run.metrics()[epoch]
        assert entry["lr"] == rate
        assert entry["objective"] == pytest.approx(sum(values) / len(values), rel=1e-5)
        assert [each["multiplier"] for each in entry["constraints"]] == pytest.approx(multipliers.tolist(), abs=1e-6)
    last = load_checkpoint(run.last)
    weights = setup.net.state_dict()
    assert last["model"].keys() == weights.keys()
    for key, value in weights.items():
        torch.testing.assert_close(last["model"][key], value, rtol=1e-4, atol=1e-5)


def test_fresh_slacks_are_those_of_the_trained_weights_on_all_training_images(
    tmp_path: Path, small: Small, train: Train
) -> None:
    run = train(tmp_path / "run", small(epochs=1, dual_slack="fresh"))
    setup = loaded(run, run.last)
    objective = lagrangian(setup)
    found = objective.duals.multipliers.clone()
    objective.eval()
    with torch.no_grad():
        distances = objective.terms(*training_images(setup.config)).distances
    starts = torch.tensor([each.start for each in objective.constraints])
    tolerances = torch.tensor([each.tolerance for each in objective.constraints])
    expected = torch.clamp(starts + objective.duals.rate * (distances - tolerances), min=0)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert (found > 0).any()


def test_fresh_slacks_can_be_of_some_training_images(small: Small) -> None:
    config = small(dual_slack="fresh", dual_samples=50)
    setup = Setup(config)
    (images, labels), *others = setup.slack_batches(0)
    assert len(labels) == 50
    assert others == []
    assert set(pixels([(images, labels)])) <= set(pixels([training_images(config)]))
    (again, _), *_ = setup.slack_batches(0)
    (later, _), *_ = setup.slack_batches(1)
    assert torch.equal(images, again)
    assert not torch.equal(images, later)


def test_fresh_slacks_are_not_of_the_images_that_the_epoch_trains_on_first(small: Small) -> None:
    setup = Setup(small(dual_slack="fresh", dual_samples=20, batch_size=20, augment=False))
    assert set(pixels(setup.slack_batches(0))) != set(pixels([next(iter(setup.training_batches(0)))]))


def test_multipliers_move_every_n_steps_across_epochs(tmp_path: Path, small: Small, train: Train) -> None:
    """Of 6 steps every 4th: the multipliers rest in the first epoch and move in the second."""
    entries = train(tmp_path / "run", small(dual_every=4)).metrics()
    starts = [1.0] + [0.0] * 8
    assert [each["multiplier"] for each in entries[0]["constraints"]] == starts
    assert [each["multiplier"] for each in entries[1]["constraints"]] != starts


def test_training_batches_are_augmented_and_shuffled_anew_every_epoch(small: Small) -> None:
    augmented, plain = Setup(small()), Setup(small(augment=False))
    for setup in (augmented, plain):
        first, again, second = (torch.cat([x for x, _ in setup.training_batches(epoch)]) for epoch in (0, 0, 1))
        assert torch.equal(first, again)
        assert not torch.equal(first, second)
    training = pixels([training_images(small())])
    assert pixels(plain.training_batches(0)) == pixels(plain.training_batches(1)) == training
    assert pixels(augmented.training_batches(0)) != training


def test_validation_images_are_not_trained_on(small: Small) -> None:
    setup = Setup(small(train_images=None))
    digits = data.load("digits")
    validation, test = pixels(setup.validation_batches()), pixels(setup.test_batches())
    training = pixels(Setup(small(train_images=None, augment=False, batch_size=2)).training_batches(0))
    assert (len(training), len(validation)) == (1298, 144)
    assert sorted(training + validation) == sorted(image.numpy().tobytes() for image in digits.images)
    assert test == sorted(image.numpy().tobytes() for image in digits.test_images)


def test_the_chosen_model_has_the_best_validation_accuracy_of_low_precision(
    tmp_path: Path, small: Small, train: Train
) -> None:
    """With this seed the mean over plans chooses epoch 4; the full-precision view, either plan and the last do not."""
    config = small(method="pdqat-output", bits=["1", "4"], batch_size=32, lr=2e-2, epochs=5, dual_rate=0.0, seed=7)
    run = train(tmp_path / "run", config)
    entries, summary = run.metrics(), run.summary()
    means = [(entry["accuracy"]["1-bit"] + entry["accuracy"]["4-bit"]) / 2 for entry in entries]
    chosen = means.index(max(means)) + 1
    assert summary["chosen_epoch"] == load_checkpoint(run.best)["epoch"] == chosen
    entry = entries[chosen - 1]
    assert {view: parts["validation"] for view, parts in summary["accuracy"].items()} == entry["accuracy"]
    assert summary["constraints"] == entry["constraints"]
    setup = loaded(run, run.best)
    assert evaluate(setup.objective, setup.test_batches()).accuracy == {
        view: parts["test"] for view, parts in summary["accuracy"].items()
    }


def test_the_summary_counts_and_names(tmp_path: Path, small: Small, train: Train) -> None:
    config = small(epochs=1, bits=["2", "w4a8"], layers={"stages.0.0.*": "full", "head": "8"})
    summary = train(tmp_path / "run", config).summary()
    assert list(summary) == [
        *("method", "epochs", "chosen_epoch", "accuracy", "constraints", "plans", "left_alone", "parameters"),
        *("seconds", "compiled", "versions"),
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


def test_tolerances_are_by_name_then_pattern_then_the_layers_then_bits(
    tmp_path: Path, small: Small, train: Train
) -> None:
    def tolerances(name: str, **changes: Any) -> dict[str, float]:
        config = small(**{"epochs": 1, "layer_distance": "squared", **changes})
        entries = train(tmp_path / name, config).summary()["constraints"]
        return {each["where"]: each["tolerance"] for each in entries}

    given = {"stages.*": 0.2, "stages.0.0.conv0": 0.05, "*.shortcut.conv": 0.4}
    found = tolerances("named", output_tolerance=0.7, layer_tolerance=0.1, tolerances=given)
    assert (found[""], found["stages.0.0.conv0"], found["stages.1.0.shortcut.conv"]) == (0.7, 0.05, 0.2)
    found = tolerances("rest", layer_tolerance=0.1, tolerances={"stages.2.*": 0.2})
    assert (found["stages.0.0.conv0"], found["stages.2.0.conv0"]) == (0.1, 0.2)
    found = tolerances("all", layer_tolerance=0.1, tolerances={"*": 0.45})
    assert set(found.values()) - {found[""]} == {0.45}
    none = {"output_tolerance": None, "layer_tolerance": None}
    found = tolerances("paper", bits=["3"], tolerances={"stages.2.*": 0.2}, **none)
    assert (found[""], found["stages.0.0.conv0"], found["stages.2.0.conv0"]) == ((1 / 7) ** 2, 1 / 7, 0.2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"layers": {"*": "full"}}, "nothing to quantise"),
        ({"layers": {"stages.9.*": "4"}}, "the layer rule 'stages.9.\\*' matches no layer"),
        ({"tolerances": {"stages.9.*": 0.1}}, "the tolerance for 'stages.9.\\*' matches no layer"),
        ({"level": "block", "blocks": ["stages.9"]}, "block 'stages.9' is not a submodule with layers"),
        ({"bits": ["2", "2"]}, "each plan needs a name of its own"),
        ({"bits": ["full"]}, "a plan can't be called 'full'"),
        ({"train_images": 5000}, "train_images is 5000, but there are only 1298"),
        ({"validation": 0.0001}, "nothing to validate on"),
        ({"data_path": "digits.csv"}, "digits.csv can't be given"),
    ],
)
def test_what_only_data_and_model_can_refuse_is_refused(small: Small, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Setup(small(**changes))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile uses what torch advises against
def test_a_compiled_run_has_the_numbers_of_an_eager_one(tmp_path: Path, small: Small, train: Train) -> None:
    eager, compiled = (train(tmp_path / str(how), small(compile=how)).metrics() for how in (False, True))
    for ours, theirs in zip(compiled, eager, strict=True):
        assert ours["objective"] == pytest.approx(theirs["objective"], rel=1e-3)
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
