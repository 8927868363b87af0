"""Training that ends before its last epoch: out of patience, or because something is not a number."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdqat.errors import InputError
from pdqat.training import Run, TrainConfig
from pdqat.training.checkpoints import load_checkpoint
from pdqat.training.evaluation import evaluate
from pdqat.training.setup import Setup

Small = Callable[..., TrainConfig]
Train = Callable[..., Run]


def test_training_stops_when_validation_gets_no_better(tmp_path: Path, small: Small, train: Train) -> None:
    """The schedule ruins what the first three epochs learned."""
    config = small(method="full", batch_size=16, lr=1e-2, epochs=6, milestones=[0.5], decay=1e3)
    patient = train(tmp_path / "patient", config).metrics()
    run = train(tmp_path / "impatient", replace(config, patience=2))
    accuracies = [entry["accuracy"]["full"] for entry in patient]
    stop = next(n for n in range(1, 7) if n - (accuracies.index(max(accuracies[:n])) + 1) >= 2)
    assert stop < 6, "a run to the end would show nothing"
    assert run.metrics() == patient[:stop]
    assert run.summary()["epochs"] == stop
    assert run.summary()["chosen_epoch"] == stop - 2


def test_a_run_out_of_patience_is_not_trained_further_when_continued(
    tmp_path: Path, small: Small, train: Train
) -> None:
    config = small(method="full", batch_size=16, lr=1e-2, epochs=4, milestones=[0.5], decay=1e3, patience=1)
    run = train(tmp_path / "run", config)
    before, summary = run.metrics(), run.summary()
    assert len(before) < 4
    run.summary_file.unlink()
    train(run.path)
    assert run.metrics() == before
    assert run.summary() == summary


def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_last_good_state(
    tmp_path: Path, small: Small, train: Train
) -> None:
    """The schedule raises the rate so far that the second step of epoch 2 overflows."""
    config = small(milestones=[0.5], decay=1e33)
    said = "the loss is not a number at epoch 2, step 2; .*last.pt holds the state after epoch 1"
    with pytest.raises(InputError, match=said):
        train(tmp_path / "run", config)
    run = Run.open(tmp_path / "run")
    assert len(run.metrics()) == 1
    assert not run.summary_file.exists()
    setup = Setup(run.config())
    setup.load(load_checkpoint(run.last), run.last)
    assert evaluate(setup.objective, setup.validation_batches()).accuracy == run.metrics()[0]["accuracy"]


def test_a_run_that_fails_in_its_first_epoch_says_where(tmp_path: Path, small: Small, train: Train) -> None:
    with pytest.raises(InputError, match="the loss is not a number at epoch 1, step 2; a smaller learning rate"):
        train(tmp_path / "run", small(lr=1e30))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"method": "full", "lr": 1e30, "train_images": 64}, "the validation loss"),
        ({"method": "ste", "lr": 1e30, "train_images": 64}, "the validation loss"),
        ({"dual_rate": 1e300, "output_tolerance": 0.0}, "the multiplier of 2-bit/output"),
    ],
)
def test_what_the_last_step_of_an_epoch_spoils_is_not_saved(
    tmp_path: Path, small: Small, train: Train, changes: dict[str, Any], what: str
) -> None:
    with pytest.raises(InputError, match=f"{what} is not a number after epoch 1"):
        train(tmp_path / "run", small(**changes))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["config.toml"]
