"""`pdqat export`, `pdqat verify` and `pdqat bench` on a run folder: words, flags and exit codes."""

import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import refusal
from finished_run import finished_run
from pdqat.cli import main
from pdqat.config.presets import PRESETS
from pdqat.deployment import bench, runtimes, verify
from pdqat.deployment.formats import FORMATS
from pdqat.deployment.microcontroller import beside
from pdqat.precision import Precision
from pdqat.runs.checkpoints import load_checkpoint, save_checkpoint
from pdqat.runs.exports_file import read_exports
from pdqat.runs.folder import Run
from pdqat.runs.plan_file import write_plan


@pytest.fixture(scope="module", autouse=True)
def few_images() -> Iterator[None]:
    """How closely a file is looked at is tested where it is verified."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "CLOSE_IMAGES", 20)
        yield


@pytest.fixture(scope="module")
def exportable_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exportable") / "run"
    return finished_run(folder, quantizer="dorefa-int8", integer_sums=True).path


@pytest.fixture(scope="module")
def file(exportable_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "model.onnx"
    assert main(["export", str(exportable_run), "--out", str(path)]) == 0
    return path


def layers_of(run: Path) -> list[str]:
    return list(Run.open(run).summary()["plans"]["2-bit"])


def test_export_shows_its_report(exportable_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(exportable_run), "--out", str(tmp_path / "model.onnx")]) == 0
    said = capsys.readouterr().out
    assert "channels give the codes of float32 for every integer within reach" in said
    assert "in real numbers: stem, head" in said
    assert said.count(" pass ") == len(runtimes.installed())
    assert "of the weights in float32" in said
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_a_pipe_gets_the_file(exportable_run: Path, file: Path, tmp_path: Path) -> None:
    pipe, heard = tmp_path / "pipe.onnx", []
    os.mkfifo(pipe)
    listener = threading.Thread(target=lambda: heard.append(pipe.read_bytes()), daemon=True)
    listener.start()
    assert main(["export", str(exportable_run), "--out", str(pipe)]) == 0
    listener.join()
    assert heard == [file.read_bytes()]
    assert pipe.is_fifo()


def test_a_format_has_a_name_of_its_own_in_the_run_folder(exportable_run: Path) -> None:
    path = exportable_run / FORMATS["qonnx"].file
    assert main(["export", str(exportable_run), "--format", "qonnx"]) == 0
    assert path.exists()
    path.unlink()


def test_verify_looks_as_closely_as_it_is_told(
    exportable_run: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = []
    for number in ("1", "3"):
        assert main(["verify", str(file), str(exportable_run), "--close", number, "--json"]) == 0
        (entry, *_) = json.loads(capsys.readouterr().out)
        counts.append(sum(entry["codes"][kind]["count"] for kind in ("exact", "edge", "real")))
    assert counts[1] == 3 * counts[0] > 0


def test_verify_refuses_to_look_at_no_image(
    exportable_run: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, "verify", file, exportable_run, "--close", "0")
    assert "--close: a whole number above 0 is needed, not '0'" in said


def test_verify_prints_numbers(exportable_run: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["verify", str(file), str(exportable_run), "--json"]) == 0
    for result in json.loads(capsys.readouterr().out):
        assert result["passes"]
        assert result["codes"]["exact"]["different"] == result["codes"]["exact"]["unexplained"] == 0
        assert result["codes"]["exact"]["count"] > 10_000
        assert set(result["layers"]) == set(layers_of(exportable_run))
        assert result["outputs"]["unexplained"] == result["choices"]["unexplained"] == 0
        assert 0 <= result["accuracy"] <= 1
    assert main(["verify", str(file), str(exportable_run)]) == 0
    assert " pass " in capsys.readouterr().out


def test_another_plan(exportable_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layers = layers_of(exportable_run)
    plan: dict[str, Any] = dict.fromkeys(layers, Precision(2, 2))
    plan |= {layers[0]: Precision(None, None), layers[-1]: Precision(4, 4)}
    write_plan(tmp_path / "plan.toml", plan, "by hand")
    path, run, option = tmp_path / "model.onnx", exportable_run, ("--plan", str(tmp_path / "plan.toml"))
    assert main(["export", str(run), *option, "--out", str(path)]) == 0
    assert main(["verify", str(path), str(run), *option]) == 0
    assert "was not exported from this network under this plan" in refusal(capsys, "verify", path, run)
    write_plan(tmp_path / "plan.toml", {"conv9": Precision(2, 2)}, "of another model")
    assert "conv9" in refusal(capsys, "export", run, *option)


def test_bad_input_gets_one_sentence(
    exportable_run: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = exportable_run
    assert "there is no file" in refusal(capsys, "verify", tmp_path / "none.onnx", run)
    assert "must end in .onnx, since" in refusal(capsys, "export", run, "--out", tmp_path / "model.bin")
    assert "packing is for formats" in refusal(capsys, "export", run, "--format", "torch", "--pack")
    assert "there is no folder" in refusal(capsys, "export", run, "--out", tmp_path / "no" / "model.onnx")
    assert "is not a run folder" in refusal(capsys, "export", tmp_path)
    assert "give the run that model.onnx was exported from" in refusal(capsys, "bench", file)


def test_bench_prints_a_table_or_numbers(
    exportable_run: Path, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "TURN_SECONDS", 0.001)
    capsys.readouterr()
    assert main(["bench", str(file), "--run", str(exportable_run), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["runtime"], row["batch"]) for row in rows} == {
        (name, batch) for name in runtimes.installed() for batch in bench.BATCHES
    }
    assert main(["bench", str(file), "--run", str(exportable_run)]) == 0
    assert "times float32" in capsys.readouterr().out


@pytest.fixture(scope="module")
def folder_of_c(exportable_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("c") / "model-c"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beside, "missing", lambda: "the tools are left out")
        assert main(["export", str(exportable_run), "--format", "c", "--out", str(path)]) == 0
    return path


def test_a_folder_of_c_is_verified_and_known_to_the_run(
    exportable_run: Path, folder_of_c: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["verify", str(folder_of_c), str(exportable_run)]) == 0
    assert "c: no code differs" in capsys.readouterr().out
    assert str(folder_of_c) in read_exports(Run(exportable_run))


def test_no_program_of_a_stranger_is_compiled(
    exportable_run: Path, folder_of_c: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = shutil.copytree(folder_of_c, tmp_path / "changed")
    (changed / "model.c").write_text(f"{(changed / 'model.c').read_text()}\nint more(void) {{ return 1; }}\n")
    complaint = "was not exported from this network under this plan, or was changed"
    assert complaint in refusal(capsys, "verify", changed, exportable_run)
    assert complaint in refusal(capsys, "bench", changed, "--run", exportable_run)
    assert "give the run that changed was exported from" in refusal(capsys, "bench", changed)


@pytest.fixture(scope="module")
def run_in_integers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployable") / "run"
    return finished_run(folder, **PRESETS["deployable"], model="preresnet8").path


@pytest.mark.parametrize("form", ["onnx", "c"])
def test_a_deployable_resnet_8_is_integers_from_the_image_to_the_scores(
    form: str, run_in_integers: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "missing", lambda: "the tools are left out")
    assert main(["export", str(run_in_integers), "--format", form]) == 0
    assert "whole numbers from the input to the scores" in capsys.readouterr().out
    path = run_in_integers / FORMATS[form].file
    assert main(["verify", str(path), str(run_in_integers), "--json"]) == 0
    for result in json.loads(capsys.readouterr().out):
        assert result["passes"]
        assert result["codes"]["exact"]["count"] > 0
        certain = ("exact", "real", "edge") if form == "c" else ("exact", "real")  # runtimes may round on an edge
        assert not any(result["codes"][kind]["different"] for kind in certain)
    if form == "c":
        assert "Everything is computed in integers." in (path / "README.md").read_text()


def test_a_run_of_before_means_were_rounded_is_refused(
    run_in_integers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.open(Path(shutil.copytree(run_in_integers, tmp_path / "run")))
    checkpoint = load_checkpoint(run.best)
    del checkpoint["model"]["norm.sums.2-bit.largest"]
    save_checkpoint(run.best, checkpoint)
    said = refusal(capsys, "export", run.path)
    assert "norm.sums.2-bit.largest is not in the state, which was trained without rounding" in said


@pytest.mark.slow
def test_bench_measures_a_folder_and_leaves_its_self_test_alone(
    exportable_run: Path, folder_of_c: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = shutil.copytree(folder_of_c, tmp_path / "model-c")
    (changed / "selftest.c").write_text("#error compiled\n")
    capsys.readouterr()
    assert main(["bench", str(changed), "--run", str(exportable_run), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert all(printed[key] > 0 for key in ("weights", "code", "arena", "stack", "macs", "instructions"))
    assert read_exports(Run(exportable_run))[str(changed)]["on_core"]["model-c"] == printed
