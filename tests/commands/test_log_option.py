"""`pdqat train --log`."""

import tomllib
from pathlib import Path

import pytest

from command_line import TINY, refusal
from pdqat.cli import main
from pdqat.runs.folder import Run
from same_run import assert_same_run

pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def trained(folder: Path, *arguments: str) -> Run:
    assert main(["train", "--epochs", "2", *TINY, "--out", str(folder), *arguments]) == 0
    return Run.open(folder)


def test_a_run_is_logged_with_its_report_and_has_the_numbers_of_one_that_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = trained(tmp_path / "logged", "--log", "tensorboard")
    assert f"log: tensorboard --logdir {logged.path}/tensorboard" in capsys.readouterr().out
    assert tomllib.loads(logged.config_file.read_text())["log"] == ["tensorboard"]
    events = EventAccumulator(str(logged.path / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    losses = [(event.step, event.value) for event in events.Scalars("loss")]
    assert losses == [(entry["epoch"], pytest.approx(entry["loss"])) for entry in logged.metrics()]
    assert "report/text_summary" in events.Tags()["tensors"]
    assert "options/text_summary" in events.Tags()["tensors"]
    assert_same_run(trained(tmp_path / "plain"), logged)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tensorbord"], "log must be one of tensorboard, mlflow, wandb, trackio (did you mean tensorboard?)"),
        (["tensorboard", "--log", "tensorboard"], "log must name each once"),
    ],
)
def test_other_words_are_refused_without_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert sentence in refusal(capsys, "train", "--out", tmp_path / "run", "--log", *words)
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_is_not_installed_is_refused_without_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdqat.trackers.trackio.Trackio.package", "no_such_package")
    told = refusal(capsys, "train", *TINY, "--out", tmp_path / "run", "--log", "tensorboard", "--log", "trackio")
    assert "pip install 'pdqat[trackio]'" in told
    assert not (tmp_path / "run").exists()
