"""A run that was stopped anywhere and continued ends with the numbers of one that was not, bit for bit."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pdqat.errors import InputError
from pdqat.training import Run, TrainConfig
from pdqat.training.checkpoints import load_checkpoint, save_checkpoint
from same_run import assert_same_run

Small = Callable[..., TrainConfig]
Train = Callable[..., Run]


class Interrupt:
    """A watcher that stops the training, as Ctrl-C does, at the end of a step or of an epoch."""

    def __init__(self, epoch: int, at_step: bool) -> None:
        self._epoch = epoch
        self._at_step = at_step

    def start(self, epochs: int, steps: int, done: int) -> None: ...

    def step(self, epoch: int, step: int, objective: float) -> None:
        if self._at_step and epoch == self._epoch:
            raise KeyboardInterrupt

    def epoch(self, entry: dict[str, Any]) -> None:
        if not self._at_step and entry["epoch"] == self._epoch:
            raise KeyboardInterrupt


class Snapshots:
    """A watcher that copies the run folder after every epoch."""

    def __init__(self, run: Path, to: Path) -> None:
        self._run = run
        self._to = to

    def start(self, epochs: int, steps: int, done: int) -> None: ...

    def step(self, epoch: int, step: int, objective: float) -> None: ...

    def epoch(self, entry: dict[str, Any]) -> None:
        shutil.copytree(self._run, self._to / str(entry["epoch"]))


VARIANTS: dict[str, dict[str, Any]] = {
    "layers, running slacks": {},
    "layers, sampled, in bfloat16": {"layer_sample": 0.25, "amp": True},
    "layers, fresh slacks of some images": {"dual_slack": "fresh", "dual_samples": 100},
    "layers, every 2 steps, running": {"dual_every": 2},
    "layers, every 2 steps, fresh": {"dual_every": 2, "dual_slack": "fresh"},
    "layers, nupi": {"dual_rule": "nupi", "dual_damping": 0.5, "dual_nu": 0.5, "dual_every": 2},
    "layers, multiplicative": {"dual_rule": "multiplicative", "dual_rate": 0.5},
    "channels": {"level": "channel", "layer_distance": "squared"},
    "blocks": {"level": "block", "blocks": ["stages.0.0", "stages.2.0"], "norm": "tied"},
    "two plans": {"bits": ["2", "w4a8"], "layers": {"stages.0.0.conv0": "full"}},
    "output, uniform": {"method": "pdqat-output", "quantizer": "uniform", "gradient": "straight-through"},
    "straight-through with lsq": {"method": "ste", "quantizer": "lsq", "bits": ["2", "4"]},
    "full precision, no augmentation": {"method": "full", "augment": False},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_a_stopped_and_continued_run_equals_an_undisturbed_one(
    tmp_path: Path, small: Small, train: Train, changes: dict[str, Any]
) -> None:
    config = small(**changes)
    undisturbed = train(tmp_path / "undisturbed", config)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", config, Interrupt(epoch=2, at_step=True))
    assert len(Run.open(tmp_path / "stopped").metrics()) == 1
    assert_same_run(undisturbed, train(tmp_path / "stopped"))


def test_stopping_before_the_first_checkpoint_and_several_times_changes_nothing(
    tmp_path: Path, small: Small, train: Train
) -> None:
    config = small(epochs=3)
    undisturbed = train(tmp_path / "undisturbed", config)
    path = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        train(path, config, Interrupt(epoch=1, at_step=True))
    assert [file.name for file in path.iterdir()] == ["config.toml"]
    for epoch, at_step in ((1, True), (1, False), (2, True), (3, True), (3, False)):
        with pytest.raises(KeyboardInterrupt):
            train(path, watcher=Interrupt(epoch, at_step))
    assert not (path / "summary.json").exists()
    assert_same_run(undisturbed, train(path))


def test_every_moment_between_the_files_of_an_epoch_can_be_continued(
    tmp_path: Path, small: Small, train: Train
) -> None:
    """Metrics, best and last are renamed into place one after the other; a kill leaves a beginning of that."""
    config = small(method="pdqat-output", batch_size=16)
    run = train(tmp_path / "run", config, Snapshots(tmp_path / "run", tmp_path))
    assert load_checkpoint(run.best)["epoch"] == 2, "the second epoch writes all three files"
    for number, replaced in enumerate([(), ("metrics.jsonl",), ("metrics.jsonl", "best.pt")]):
        killed = tmp_path / f"killed-{number}"
        shutil.copytree(tmp_path / "1", killed)
        for name in replaced:
            shutil.copy(tmp_path / "2" / name, killed / name)
        for name in ("metrics.jsonl", "best.pt", "last.pt", "summary.json"):
            (killed / f".{name}.tmp").write_bytes(b"half of i")
        assert_same_run(run, train(killed))
    assert_same_run(run, train(tmp_path / "2"))


def test_a_run_does_not_depend_on_what_the_process_drew_before(tmp_path: Path, small: Small, train: Train) -> None:
    config = small(epochs=1)
    runs = []
    for number in range(2):
        torch.rand(number + 5)
        runs.append(train(tmp_path / str(number), config))
    assert_same_run(*runs)


def test_another_seed_is_another_run(tmp_path: Path, small: Small, train: Train) -> None:
    first, second = (train(tmp_path / str(seed), small(epochs=1, seed=seed)) for seed in (0, 1))
    assert first.metrics() != second.metrics()


@pytest.fixture
def stopped(tmp_path: Path, small: Small, train: Train) -> Run:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", small(), Interrupt(epoch=1, at_step=False))
    return Run.open(tmp_path / "stopped")


def contents(run: Run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.path.iterdir()}


@pytest.mark.parametrize("key", ["optimizer", "duals", "model"])
def test_a_checkpoint_that_lacks_something_is_refused(stopped: Run, train: Train, key: str) -> None:
    checkpoint = load_checkpoint(stopped.last)
    save_checkpoint(stopped.last, {**checkpoint, key: {}})
    before = contents(stopped)
    with pytest.raises(InputError, match=r"last.pt does not fit the run's configuration"):
        train(stopped.path)
    assert contents(stopped) == before


@pytest.mark.parametrize(
    ("old", "new"), [("width = 1", "width = 2"), ('"pdqat-layers"', '"ste"'), ('    "2"', '    "4"')]
)
def test_a_checkpoint_of_another_configuration_is_refused(stopped: Run, train: Train, old: str, new: str) -> None:
    stopped.config_file.write_text(stopped.config_file.read_text().replace(old, new))
    before = contents(stopped)
    with pytest.raises(InputError, match=r"does not fit the run's configuration|of another problem"):
        train(stopped.path)
    assert contents(stopped) == before


def test_metrics_that_lack_epochs_are_refused(stopped: Run, train: Train) -> None:
    stopped.metrics_file.unlink()
    with pytest.raises(InputError, match=r"metrics.jsonl ends with epoch 0, but .* holds the state after epoch 1"):
        train(stopped.path)


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_lost_best_checkpoint_is_said_before_training_goes_on(stopped: Run, train: Train, damage: str) -> None:
    if damage == "missing":
        stopped.best.unlink()
    else:
        stopped.best.write_bytes(stopped.best.read_bytes()[:-100])
    before = contents(stopped)
    with pytest.raises(InputError, match=r"best.pt"):
        train(stopped.path)
    assert contents(stopped) == before
