import json
import math
from pathlib import Path

import pytest

from configured import create
from entries_of_runs import SUMMARY, epoch_entry
from pdqat.config.presets import config_of
from pdqat.config.train_config import TrainConfig
from pdqat.errors import InputError
from pdqat.runs.folder import Run


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_nothing(run: Run) -> None:
    """For a folder of which only one file is looked at."""


def test_a_new_run_has_its_configuration_and_nothing_else(tmp_path: Path) -> None:
    config = TrainConfig(epochs=7, tolerances={"stages.0.0.conv0": 0.2})
    run = create(tmp_path / "runs" / "first", config)
    assert contents(run.path).keys() == {"config.toml", "seal.json"}
    assert Run.open(run.path).options() == config.as_options()
    assert config_of(Run.open(run.path)) == config
    assert run.metrics() == []


def test_an_existing_folder_is_refused_and_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "inner").mkdir(parents=True)
    (folder / "config.toml").write_text("mine")
    (folder / "inner" / "notes").write_text("mine too")
    before = contents(folder)
    with pytest.raises(InputError, match="run exists; give another --out, or continue that run with --resume"):
        Run.create(folder, write_nothing)
    assert contents(folder) == before


@pytest.mark.parametrize("kind", ["empty folder", "file", "link to nothing"])
def test_whatever_exists_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run"
    if kind == "empty folder":
        path.mkdir()
    elif kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to(tmp_path / "nothing")
    with pytest.raises(InputError, match="run exists"):
        Run.create(path, write_nothing)
    assert not (tmp_path / "nothing").exists()


def test_a_folder_that_can_not_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"can't make the run folder .*: Not a directory"):
        Run.create(tmp_path / "file" / "run", write_nothing)
    with pytest.raises(InputError, match=r"can't make the run folder .*: File name too long"):
        Run.create(tmp_path / ("a" * 300), write_nothing)


@pytest.mark.parametrize("name", ["nowhere", "file", "folder"])
def test_what_is_not_a_run_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=f"{name} is not a run folder: it has no config.toml"):
        Run.open(tmp_path / name)


def test_metrics_are_one_line_an_epoch(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", write_nothing)
    entries = [epoch_entry(1), epoch_entry(2)]
    run.write_metrics(entries)
    assert [json.loads(line) for line in run.metrics_file.read_text().splitlines()] == entries
    assert run.metrics() == entries


@pytest.mark.parametrize("content", [b'{"epoch": 1}\n{"epo', b"\xff\n", b"[\n", b"[" * 100_000])
def test_damaged_metrics_are_refused(tmp_path: Path, content: bytes) -> None:
    run = Run.create(tmp_path / "run", write_nothing)
    run.metrics_file.write_bytes(content)
    with pytest.raises(InputError, match=r"metrics.jsonl is damaged"):
        run.metrics()


def test_what_is_not_a_number_never_gets_into_a_file(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", write_nothing)
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.write_metrics([{"loss": math.nan}])
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.write_summary({"loss": math.inf})
    assert contents(run.path) == {}, "not even a seal"


def test_a_summary_comes_back_as_it_was(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", write_nothing)
    run.write_summary(SUMMARY)
    assert run.summary() == SUMMARY


def test_a_run_without_summary_is_not_finished(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", write_nothing)
    with pytest.raises(InputError, match=r"is not finished; continue it with: pdqat train --resume .*run"):
        run.summary()


@pytest.mark.parametrize(
    "content", [b'{"accuracy": ', b"\xff", b"[]", b"{}", b'{"accuracy": 3}', b'{"accuracy": {}}', b"", b"[" * 100_000]
)
def test_a_damaged_summary_is_refused(tmp_path: Path, content: bytes) -> None:
    run = Run.create(tmp_path / "run", write_nothing)
    run.summary_file.write_bytes(content)
    with pytest.raises(InputError, match=r"summary.json is damaged"):
        run.summary()


def test_a_configuration_that_was_edited_badly_is_refused(tmp_path: Path) -> None:
    run = create(tmp_path / "run", TrainConfig())
    run.config_file.write_text(run.config_file.read_text().replace("epochs = 100", "epochs = 0"))
    run.seal.accept()
    with pytest.raises(InputError, match="epochs must be a number from 1 upwards, not 0"):
        config_of(run)


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path: Path) -> None:
    run = create(tmp_path / "run", TrainConfig())
    trained_elsewhere = pytest.raises(InputError, match="is being trained by another process")
    with run.locked(), trained_elsewhere, Run.open(run.path).locked():
        pass
    with run.locked():
        pass
