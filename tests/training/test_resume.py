"""A run that was stopped anywhere and continued ends with the numbers of one that was not, bit for bit."""

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from configured import small, train
from counting import BATCHES, counting_problem, more_calls
from interrupted import Interrupt, Snapshots
from pdqat.errors import InputError
from pdqat.runs.checkpoints import load_checkpoint, save_checkpoint
from pdqat.runs.folder import Run
from pdqat.training import fit
from pdqat.training.callbacks import Callback
from same_run import assert_same_run

VARIANTS: dict[str, dict[str, Any]] = {
    "layers, running slacks": {},
    "layers, sampled, in bfloat16": {"layer_sample": 0.25, "amp": True},
    "layers, fresh slacks of some images": {"dual_slack": "fresh", "dual_samples": 100},
    "layers, every 2 steps, running": {"dual_every": 2},
    "layers, every 2 steps, fresh": {"dual_every": 2, "dual_slack": "fresh"},
    "layers, nupi": {"dual_rule": "nupi", "dual_damping": 0.5, "dual_nu": 0.5, "dual_every": 2},
    "layers, nupi with restarts": {"dual_rule": "nupi", "dual_damping": 0.5, "dual_restart": True, "dual_every": 2},
    "layers, multiplicative": {"dual_rule": "multiplicative", "dual_rate": 0.5},
    "channels": {"level": "channel", "layer_distance": "squared"},
    "blocks": {"level": "block", "blocks": ["stages.0.0", "stages.2.0"], "tied_norms": True},
    "two plans": {"bits": ["2", "w4a8"], "layers": {"stages.0.0.conv0": "full"}},
    "output, uniform": {"method": "pdqat-output", "quantizer": "uniform", "gradient": "straight-through"},
    "straight-through with lsq": {"method": "ste", "quantizer": "lsq", "bits": ["2", "4"]},
    "full precision, no augmentation": {"method": "full", "augment": False},
    "warm-up, norms estimated": {"warm_up": 0.5, "norm_batches": 2, "layer_sample": 0.25},
    "progressive bits, flips": {"progressive": ["4"], "flip_rate": 0.02, "gradient": "straight-through"},
    "two batches a step, clipped": {"accumulate": 2, "clip_norm": 0.1, "gradient": "exact"},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_a_stopped_and_continued_run_equals_an_undisturbed_one(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "undisturbed"
    undisturbed = train(path, small(**changes), [Snapshots(path, tmp_path)])
    assert len(Run.open(tmp_path / "1").metrics()) == 1
    assert_same_run(undisturbed, train(tmp_path / "1"))


def test_stopping_before_the_first_checkpoint_and_several_times_changes_nothing(tmp_path: Path) -> None:
    config = small(epochs=3)
    undisturbed = train(tmp_path / "undisturbed", config)
    path = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        train(path, config, [Interrupt(epoch=1, at_step=True)])
    assert {file.name for file in path.iterdir()} == {"config.toml", "seal.json"}
    for epoch, at_step in ((1, True), (1, False), (2, True), (3, True), (3, False)):
        with pytest.raises(KeyboardInterrupt):
            train(path, callbacks=[Interrupt(epoch, at_step)])
    assert not (path / "summary.json").exists()
    assert_same_run(undisturbed, train(path))


def test_every_moment_between_the_files_of_an_epoch_can_be_continued(tmp_path: Path) -> None:
    """Seal, metrics, best and last are renamed into place one after the other; a kill leaves a beginning of that."""

    def go_on(folder: Path, callbacks: Sequence[Callback] = ()) -> Run:
        problem, resume = counting_problem(), folder.exists()
        how: dict[str, Any] = {"metric": more_calls(problem), "callbacks": callbacks, "progress": False}
        fit(problem, BATCHES, validation=BATCHES, epochs=2, out=folder, resume=resume, **how)
        return Run.open(folder)

    run = go_on(tmp_path / "run", [Snapshots(tmp_path / "run", tmp_path)])
    assert load_checkpoint(run.best)["epoch"] == 2, "the second epoch writes all three files"
    for number, replaced in enumerate(itertools.accumulate([(), ("seal.json",), ("metrics.jsonl",), ("best.pt",)])):
        killed = tmp_path / f"killed-{number}"
        shutil.copytree(tmp_path / "1", killed)
        for name in replaced:
            shutil.copy(tmp_path / "2" / name, killed / name)
        for name in ("metrics.jsonl", "best.pt", "last.pt", "summary.json"):
            (killed / f".{name}.tmp").write_bytes(b"half of i")
        assert_same_run(run, go_on(killed))
    assert_same_run(run, go_on(tmp_path / "2"))


def test_a_run_does_not_depend_on_what_the_process_drew_before(tmp_path: Path) -> None:
    config = small(epochs=1)
    runs = []
    for number in range(2):
        torch.rand(number + 5)
        runs.append(train(tmp_path / str(number), config))
    assert_same_run(*runs)


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    first, second = (train(tmp_path / str(seed), small(epochs=1, seed=seed)) for seed in (0, 1))
    assert first.metrics() != second.metrics()


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("resume") / "stopped"
    with pytest.raises(KeyboardInterrupt):
        train(path, small(), [Interrupt(epoch=1)])
    return path


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Run:
    return Run.open(shutil.copytree(stopped_once, tmp_path / "stopped"))


def contents(run: Run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.path.iterdir()}


@pytest.mark.parametrize("key", ["optimizer", "duals", "model"])
def test_a_checkpoint_that_lacks_something_is_refused(stopped: Run, key: str) -> None:
    checkpoint = load_checkpoint(stopped.last)
    save_checkpoint(stopped.last, {**checkpoint, key: {}})
    before = contents(stopped)
    with pytest.raises(InputError, match=r"last.pt (does not fit the problem|is not a checkpoint of a pdqat run)"):
        train(stopped.path)
    assert contents(stopped) == before


@pytest.mark.parametrize(
    ("old", "new"), [("width = 1", "width = 2"), ('"pdqat-layers"', '"ste"'), ('    "2"', '    "4"')]
)
def test_a_checkpoint_of_another_configuration_is_refused(stopped: Run, old: str, new: str) -> None:
    stopped.config_file.write_text(stopped.config_file.read_text().replace(old, new))
    stopped.seal.accept()
    before = contents(stopped)
    with pytest.raises(InputError, match=r"does not fit the problem: |of another problem"):
        train(stopped.path)
    assert contents(stopped) == before


def test_metrics_that_lack_epochs_are_refused(stopped: Run) -> None:
    stopped.metrics_file.unlink()
    with pytest.raises(InputError, match=r"metrics.jsonl ends with epoch 0, but .* holds the state after epoch 1"):
        train(stopped.path)


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_lost_best_checkpoint_is_said_before_training_goes_on(stopped: Run, damage: str) -> None:
    if damage == "missing":
        stopped.best.unlink()
    else:
        stopped.best.write_bytes(stopped.best.read_bytes()[:-100])
    before = contents(stopped)
    with pytest.raises(InputError, match=r"best.pt"):
        train(stopped.path)
    assert contents(stopped) == before
