"""exports.json: what is known of exported files, as long as they are the same files."""

import dataclasses
import json
from pathlib import Path

import pytest

from pdqat.deployment.bench import Spread, Timed
from pdqat.deployment.bounds.reference import Compared, Differences
from pdqat.deployment.microcontroller.measurement import CoreMeasurement
from pdqat.deployment.report import ExportReport
from pdqat.deployment.verify import Verified
from pdqat.errors import InputError
from pdqat.runs.exports_file import FILE, note_exported, note_on_core, note_timed, note_verified, read_exports
from pdqat.runs.folder import Run

VERIFIED = Verified("onnxruntime", 20, Differences(), Compared(), None, {})
TIMED = Timed("onnxruntime", 1, 64, Spread(0.1, 0.1, 0.1, 3), Spread(0.2, 0.2, 0.2, 3), Spread(2.0, 2.0, 2.0, 3))
CORE = CoreMeasurement(weights=9, code=8, arena=7, stack=6, macs=5, instructions=4)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.fixture
def file(run: Run) -> Path:
    path = run.path / "model.onnx"
    path.write_bytes(b"first")
    return path


def exported(file: Path) -> ExportReport:
    return ExportReport(file, 5, 40, [VERIFIED], [], [], False)


def test_what_several_commands_find_of_a_file_comes_together(run: Run, file: Path) -> None:
    note_exported(run, file, exported(file))
    note_timed(run, file, [TIMED])
    (entry,) = read_exports(run).values()
    assert (entry["bytes"], entry["float32_bytes"]) == (5, 40)
    assert [(it["runtime"], it["passes"]) for it in entry["verified"]] == [("onnxruntime", True)]
    assert [it["ratio"]["median"] for it in entry["timed"]] == [2.0]


def test_a_file_that_has_changed_is_not_vouched_for(run: Run, file: Path) -> None:
    note_exported(run, file, exported(file))
    file.write_bytes(b"second")
    assert read_exports(run) == {}
    note_timed(run, file, [TIMED])
    assert "verified" not in read_exports(run)["model.onnx"]
    note_verified(run, file, [VERIFIED])
    assert {"verified", "timed"} <= set(read_exports(run)["model.onnx"])


def test_a_closer_look_is_kept_until_something_fails(run: Run, file: Path) -> None:
    def noted() -> tuple[int, bool]:
        (entry,) = read_exports(run)["model.onnx"]["verified"]
        return entry["outputs"]["count"], entry["passes"]

    for outputs, expected in [
        (Compared(5), (5, True)),
        (Compared(20), (20, True)),
        (Compared(1), (20, True)),
        (Compared(1, 1, 1), (1, False)),
    ]:
        note_verified(run, file, [dataclasses.replace(VERIFIED, outputs=outputs)])
        assert noted() == expected


def test_a_new_export_forgets_the_times_of_the_old_one(run: Run, file: Path) -> None:
    note_timed(run, file, [TIMED])
    note_exported(run, file, exported(file))
    assert "timed" not in read_exports(run)["model.onnx"]


def test_a_folder_of_c_is_told_by_its_sources(run: Run) -> None:
    folder = run.path / "c"
    folder.mkdir()
    (folder / "model.c").write_text("int a;")
    note_exported(run, folder, exported(folder))
    note_on_core(run, folder, {"c": CORE})
    note_on_core(run, folder, {"float32": CORE})
    (folder / "model.o").write_bytes(b"compiled")
    assert set(read_exports(run)["c"]["on_core"]) == {"c", "float32"}
    (folder / "model.c").write_text("int b;")
    assert read_exports(run) == {}


def test_the_weights_beside_an_openvino_file_count(run: Run) -> None:
    file, weights = run.path / "model.xml", run.path / "model.bin"
    file.write_text("<net/>")
    weights.write_bytes(b"1")
    note_verified(run, file, [VERIFIED])
    assert read_exports(run)["model.xml"]["bytes"] == 7
    weights.write_bytes(b"2")
    assert read_exports(run) == {}


def test_a_run_without_exports_has_none(run: Run) -> None:
    assert read_exports(run) == {}


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"model.onnx": {"bytes": 3}})])
def test_a_damaged_file_is_refused(run: Run, content: str) -> None:
    (run.path / FILE).write_text(content)
    with pytest.raises(InputError, match=r"exports\.json is damaged"):
        read_exports(run)


def test_a_file_of_the_same_name_elsewhere_is_another_file(run: Run, file: Path, tmp_path: Path) -> None:
    note_exported(run, file, exported(file))
    elsewhere = tmp_path / "elsewhere" / file.name
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"second")
    note_exported(run, elsewhere, exported(elsewhere))
    assert list(read_exports(run)) == [file.name, str(elsewhere.resolve())]
