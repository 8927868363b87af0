"""Training that ends before its last epoch: out of patience, or because something is not a number."""

from pathlib import Path
from typing import Any

import pytest

from configured import build, small, train
from counting import BATCHES, counting_problem, fewer_calls, more_calls
from interrupted import Interrupt
from pdqat.config.presets import config_of
from pdqat.errors import InputError
from pdqat.evaluation import evaluate
from pdqat.runs.checkpoints import load_checkpoint, save_checkpoint
from pdqat.runs.folder import Run
from pdqat.training import fit
from pdqat.training.state import with_state


def test_training_stops_when_validation_gets_no_better(tmp_path: Path) -> None:
    """The first epoch is noted down as better than any epoch can be."""
    patient = train(tmp_path / "patient", small(epochs=4)).metrics()
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "impatient", small(epochs=4, patience=2), [Interrupt(epoch=1)])
    run = Run.open(tmp_path / "impatient")
    save_checkpoint(run.last, {**load_checkpoint(run.last), "best": {"epoch": 1, "score": 2.0}})
    train(run.path)
    assert run.metrics() == patient[:3]
    summary = run.summary()
    assert (summary["epochs"], summary["chosen_epoch"]) == (3, 1)
    run.summary_file.unlink()
    train(run.path)
    assert run.metrics() == patient[:3], "a run out of patience is not trained further when it is continued"
    assert run.summary() == summary


@pytest.mark.parametrize(("patience", "epochs"), [(0, 5), (1, 2), (2, 3), (4, 5), (5, 5)])
def test_epochs_without_a_better_score_are_counted(patience: int, epochs: int) -> None:
    problem = counting_problem()
    how: dict[str, Any] = {"validation": BATCHES, "epochs": 5, "patience": patience, "progress": False}
    summary = fit(problem, BATCHES, metric=fewer_calls(problem), **how).summary
    assert (summary["epochs"], summary["chosen_epoch"]) == (epochs, 1)


def test_patience_never_ends_while_scores_get_better() -> None:
    problem = counting_problem()
    how: dict[str, Any] = {"validation": BATCHES, "epochs": 4, "patience": 1, "progress": False}
    summary = fit(problem, BATCHES, metric=more_calls(problem), **how).summary
    assert (summary["epochs"], summary["chosen_epoch"]) == (4, 4)


def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_last_good_state(tmp_path: Path) -> None:
    """The schedule raises the rate so far that the second step of epoch 2 overflows."""
    config = small(milestones=[0.5], decay=1e33)
    said = "the loss is not a number at epoch 2, step 2; .*last.pt holds the state after epoch 1"
    with pytest.raises(InputError, match=said):
        train(tmp_path / "run", config)
    run = Run.open(tmp_path / "run")
    assert len(run.metrics()) == 1
    assert not run.summary_file.exists()
    built = build(config_of(run))
    problem = with_state(built.problem, load_checkpoint(run.last), "the checkpoint")
    assert evaluate(problem, built.loaders.validation).scores == run.metrics()[0]["accuracy"]


def test_a_run_that_fails_in_its_first_epoch_says_where(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the loss is not a number at epoch 1, step 2; a smaller learning rate"):
        train(tmp_path / "run", small(lr=1e30))
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"config.toml", "seal.json"}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"method": "full", "lr": 1e30, "train_images": 64}, "the validation loss"),
        ({"method": "ste", "lr": 1e30, "train_images": 64}, "the validation loss"),
        ({"dual_rate": 1e300, "output_tolerance": 0.0}, "the multiplier of 2-bit/output"),
    ],
)
def test_what_the_last_step_of_an_epoch_spoils_is_not_saved(tmp_path: Path, changes: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=f"{what} is not a number after epoch 1"):
        train(tmp_path / "run", small(**changes))
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"config.toml", "seal.json"}
