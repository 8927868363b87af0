"""A run folder of an earlier version: every command opens it, as if it had been made today."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from pdqat.cli import main
from pdqat.config.load import load
from pdqat.config.presets import config_of
from pdqat.lagrangian import Lagrangian
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.entries import layer_multipliers
from pdqat.runs.folder import Run
from pdqat.terminal import percent

STORED = Path(__file__).parent / "old_run"
FILES = ("config.toml", "metrics.jsonl", "summary.json", "best.pt", "last.pt")

ANY_PROCESSOR = 0.03
"""Another processor rounds a few activations otherwise, and decides otherwise on a few images."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A copy, to do what one likes with."""
    (tmp_path / "run").mkdir()
    for name in FILES:
        shutil.copy(STORED / name, tmp_path / "run" / name)
    return Run.open(tmp_path / "run")


def test_the_folder_is_as_the_earlier_version_wrote_it() -> None:
    options = tomllib.loads((STORED / "config.toml").read_text())
    assert (options["norm"], options["gradient"], options["carry"]) == ("ste", "exact", True)
    assert not {"take_over", "tied_norms"} & options.keys()
    assert not Path(options["init"]).exists(), "the file that the run started from is gone"
    assert "metric" not in json.loads((STORED / "summary.json").read_text())


def test_its_configuration_is_read_in_todays_keys(run: Run) -> None:
    config = config_of(run)
    assert (config.gradient, config.tied_norms, config.take_over) == ("norms", False, True)


def test_it_is_shown(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run.path)]) == 0
    shown = capsys.readouterr().out
    for parts in run.summary()["accuracy"].values():
        assert percent(parts["validation"]) in shown
        assert percent(parts["test"]) in shown
    assert "stages.2.0.conv1" in shown


def test_its_model_has_the_accuracies_and_distances_that_it_had(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    summary = run.summary()
    for part in ("test", "validation"):
        assert main(["eval", str(run.path), "--part", part, "--json"]) == 0
        measured = json.loads(capsys.readouterr().out)
        stored = {view: parts[part] for view, parts in summary["accuracy"].items()}
        assert measured["accuracy"] == pytest.approx(stored, abs=ANY_PROCESSOR)
    for bound, before in zip(measured["constraints"], summary["constraints"], strict=True):
        assert bound["name"] == before["name"]
        assert bound["distance"] == pytest.approx(before["distance"], rel=0.1)
        assert (bound["tolerance"], bound["multiplier"]) == (before["tolerance"], before["multiplier"])


def test_its_layers_are_ranked_by_the_multipliers_that_it_shows(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sensitivity", str(run.path), "--images", "50", "--json"]) == 0
    ranked = json.loads(capsys.readouterr().out)
    shown = layer_multipliers(run.summary())
    assert [layer["layer"] for layer in ranked] == sorted(shown, key=lambda layer: -shown[layer])


def test_bits_are_planned_for_it(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(run.path), "--budget", "2.5 bits", "--images", "50"]) == 0
    assert (run.path / "plan.toml").exists()
    assert (
        main(
            [
                "train",
                "--from",
                str(run.path),
                "--plan",
                str(run.path / "plan.toml"),
                "--epochs",
                "1",
                "--out",
                str(run.path.parent / "next"),
            ]
        )
        == 0
    )
    assert capsys.readouterr().err == ""
    config = config_of(Run.open(run.path.parent / "next"))
    assert config.plan == tomllib.loads((run.path / "plan.toml").read_text())["layers"]
    assert (config.gradient, config.take_over, config.init) == ("norms", True, str(run.best))


def test_it_is_continued(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """First there is only the summary missing, then an epoch too."""
    before = run.summary()
    run.summary_file.unlink()
    assert main(["train", "--resume", str(run.path)]) == 0
    assert run.summary()["chosen_epoch"] == before["chosen_epoch"]
    for view, parts in before["accuracy"].items():
        assert run.summary()["accuracy"][view] == pytest.approx(parts, abs=ANY_PROCESSOR)
    run.summary_file.unlink()
    run.config_file.write_text(run.config_file.read_text().replace("epochs = 2", "epochs = 3"))
    assert main(["seal", str(run.path)]) == 0
    assert main(["train", "--resume", str(run.path)]) == 0
    assert [entry["epoch"] for entry in run.metrics()] == [1, 2, 3]
    assert run.metrics()[2]["metric"] == "accuracy"
    checkpoint = load_checkpoint(run.last)
    assert {float(state["step"]) for state in checkpoint["optimizer"]["state"].values()} == {6.0}, "of 2 an epoch"
    assert checkpoint["best"].keys() == {"epoch", "score"}
    assert capsys.readouterr().err == ""


def test_it_is_loaded_in_python(run: Run) -> None:
    problem = load(run.path)
    assert isinstance(problem, Lagrangian)
    stored = {bound["name"]: bound["multiplier"] for bound in run.summary()["constraints"]}
    assert {name: float(part) for name, part in problem.duals.named().items()} == pytest.approx(stored)
