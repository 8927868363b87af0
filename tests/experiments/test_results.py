"""Finished cells whose files are no longer what was written."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configured import create
from finished_cell import MULTIPLIERS, finish
from pdqat.config.train_config import Method
from pdqat.errors import InputError
from pdqat.experiments.cells import Cell, Kept
from pdqat.experiments.executors import LocalExecutor, Resources
from pdqat.experiments.matrix import Matrix
from pdqat.experiments.progress import MatrixProgress
from pdqat.experiments.results import ENTRY, entries, written_entries
from pdqat.paper.protocols import PROTOCOLS
from pdqat.runs.folder import Run
from pdqat.runs.seal import Seal
from pdqat.terminal import PlainConsole

TRIAL = PROTOCOLS["trial"]
CELL = Cell(Method.PDQAT_LAYERS, 2, 0, 0.1, 0.7)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Of a finished cell."""
    run = create(CELL.run(tmp_path).path, CELL.config(TRIAL, tmp_path))
    finish(run.path)
    return run


@pytest.mark.usefixtures("run")
def test_an_entry_says_what_was_trained_and_what_came_of_it(tmp_path: Path) -> None:
    (entry,) = entries([CELL, Cell(Method.STE, 2, 0)], TRIAL, tmp_path)
    assert (entry["bits"], entry["method"], entry["tolerance"], entry["seed"]) == (2, "pdqat-layers", 0.1, 0)
    assert (entry["width"], entry["train_images"], entry["epochs"], entry["seconds"]) == (1, 256, 2, 1.0)
    assert (entry["constraints_met"], entry["constraints"]) == (3, 3)
    assert entry["multipliers"] == {name: [value, value] for name, value in MULTIPLIERS.items()}
    assert entry["slacks"] == {name: [-0.1, -0.1] for name in MULTIPLIERS}
    assert entry["processor"] == "made by hand"


def test_a_cell_from_before_the_processor_was_written_down_has_none(run: Run, tmp_path: Path) -> None:
    change(run.measured_file, lambda content: content.pop("processor"))
    assert entries([CELL], TRIAL, tmp_path)[0]["processor"] is None


def test_an_entry_of_a_recipe_says_its_name_and_whether_it_was_trained_in_bfloat16(tmp_path: Path) -> None:
    cell = Cell(Method.STE, 2, 0, suite="tiny", recipe="ste")
    config = dataclasses.replace(cell.config(TRIAL, tmp_path), amp=True)
    finish(create(cell.run(tmp_path).path, config).path)
    (entry,) = entries([cell], TRIAL, tmp_path)
    assert (entry["cell"], entry["recipe"], entry["amp"]) == ("tiny-ste-2bit-seed0", "ste", True)


def test_multipliers_begin_after_the_warm_up(tmp_path: Path) -> None:
    cell = Cell(Method.PDQAT_LAYERS, 2, 0, 0.1, 0.7, variant="warm", options={"warm_up": 0.5})
    run = create(cell.run(tmp_path).path, cell.config(TRIAL, tmp_path))
    finish(run.path)
    first, second = run.metrics()
    run.write_metrics([{**first, "constraints": []}, second])
    assert entries([cell], TRIAL, tmp_path)[0]["multipliers"] == {name: [value] for name, value in MULTIPLIERS.items()}


def change(path: Path, how: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    how(content)
    path.write_text(json.dumps(content))
    Seal(path.parent).accept()


def lose_a_layer(content: dict[str, Any]) -> None:
    del content["layer_distances"]["squared"]["stages.0.0.conv1"]


def lose_distances(content: dict[str, Any]) -> None:
    content["layer_distances"] = {}


def spoil_accuracy(content: dict[str, Any]) -> None:
    content["accuracy"]["2-bit"]["test"] = "high"


def lose_the_low_view(content: dict[str, Any]) -> None:
    del content["accuracy"]["2-bit"]


DAMAGES: dict[str, tuple[Callable[[Run], object], str]] = {
    "empty measurements": (
        lambda run: run.measured_file.write_text(""),
        "measured.json is damaged",
    ),
    "a lost layer": (lambda run: change(run.measured_file, lose_a_layer), "lacks squared distances of layers"),
    "no distances": (lambda run: change(run.measured_file, lose_distances), "it has no 'squared'"),
    "an accuracy that is no number": (
        lambda run: change(run.summary_file, spoil_accuracy),
        "holds no scores under the name of its metric",
    ),
    "no low view": (lambda run: change(run.summary_file, lose_the_low_view), "no accuracy in low precision"),
    "no summary": (lambda run: run.summary_file.unlink(), "it has no summary.json"),
    "half a summary": (lambda run: run.summary_file.write_text("{"), "summary.json is damaged"),
    "no metrics": (lambda run: run.metrics_file.unlink(), "metrics.jsonl has 0 of 2 epochs"),
    "fewer epochs": (lambda run: run.write_metrics(run.metrics()[:1]), "metrics.jsonl has 1 of 2 epochs"),
    "fewer constraints": (
        lambda run: run.write_metrics([{**entry, "constraints": []} for entry in run.metrics()]),
        "is damaged: list index out",
    ),
    "no configuration": (lambda run: run.config_file.unlink(), "it has no config.toml"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cell_is_neither_shown_nor_called_finished(damage: str, run: Run, tmp_path: Path) -> None:
    spoil, sentence = DAMAGES[damage]
    spoil(run)
    with pytest.raises(InputError) as shown:
        entries([CELL], TRIAL, tmp_path)
    with pytest.raises(InputError) as trained:
        Matrix([CELL], TRIAL, tmp_path).run(
            LocalExecutor(1, Resources(1, "cpu")), MatrixProgress(PlainConsole(quiet=True))
        )
    for caught in (shown, trained):
        assert sentence in str(caught.value)
        assert str(run.path) in str(caught.value)


def test_where_the_weights_are_left_it_can_be_measured_again(run: Run, tmp_path: Path) -> None:
    run.measured_file.write_text("")
    with pytest.raises(InputError, match="; remove the folder to train it again"):
        entries([CELL], TRIAL, tmp_path)
    run.best.touch()
    with pytest.raises(InputError, match=r"remove measured\.json in it to measure it again, or the folder"):
        entries([CELL], TRIAL, tmp_path)


def test_kept_layers_need_the_cell_that_they_follow_from(run: Run, tmp_path: Path) -> None:
    kept = Cell(CELL.method, 2, 0, CELL.tolerance, CELL.output_tolerance, kept=Kept(CELL, 1, largest=True))
    finish(create(kept.run(tmp_path).path, kept.config(TRIAL, tmp_path)).path)
    assert entries([kept], TRIAL, tmp_path)[0]["kept"] == {"stages.0.0.conv1": 0.3}
    run.measured_file.unlink()
    with pytest.raises(InputError, match=r"follow from the cell .*: it is not finished, train it first"):
        entries([kept], TRIAL, tmp_path)


WRITTEN = {
    **dict.fromkeys(("recipe", "processor"), "any"),
    "cell": "tiny-brevitas-2bit-seed0",
    "protocol": "trial",
    "amp": False,
    **dict.fromkeys(("bits", "seed", "width", "train_images", "epochs", "chosen_epoch", "seconds"), 1),
    **dict.fromkeys(("test_accuracy_low", "test_accuracy_full"), 0.5),
}


def write(folder: Path, entry: Any) -> Path:
    file = folder / "cells" / "tiny-brevitas-2bit-seed0" / ENTRY
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(entry))
    return file


def test_entries_of_other_programs_are_those_of_the_suites_folders(tmp_path: Path) -> None:
    write(tmp_path, WRITTEN)
    assert written_entries("tiny", TRIAL, tmp_path) == [WRITTEN]
    assert written_entries("scale", TRIAL, tmp_path) == []


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (WRITTEN | {"protocol": "tiny"}, "was trained under protocol 'tiny', not 'trial'"),
        (WRITTEN | {"test_accuracy_low": None}, "is damaged: Expected `float`, got `null` - at `$.test_accuracy_low`"),
        ({"cell": "x"}, "is damaged: Object missing required field `protocol`"),
        ([], "is damaged: Expected `object`, got `array`"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused(entry: Any, sentence: str, tmp_path: Path) -> None:
    file = write(tmp_path, entry)
    with pytest.raises(InputError, match=re.escape(f"{file} {sentence}")):
        written_entries("tiny", TRIAL, tmp_path)
