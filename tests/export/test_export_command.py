"""`pdqat export` and `pdqat verify` on trained runs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from pdqat.allocation.plan_file import write_plan
from pdqat.cli import main
from pdqat.export import deploy, runtimes, speed
from pdqat.export.chosen import chosen_model, write_float
from pdqat.export.formats import FORMATS
from pdqat.export.runtimes import load
from pdqat.precision import Precision
from pdqat.training import Run
from pdqat.training.setup import Setup

SMALL = ["--epochs", "8", "--lr", "5e-3", "--train-images", "256", "--batch-size", "64", "--dual-rate", "0.5"]


def trained(folder: Path, *options: str) -> Run:
    assert main(["train", "--preset", "deployable", *SMALL, *options, "--out", str(folder)]) == 0
    return Run.open(folder)


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("deployable") / "run", "--bits", "2")


@pytest.fixture(scope="module")
def one_bit(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = trained(tmp_path_factory.mktemp("one-bit") / "run", "--bits", "1")
    assert main(["export", str(run.path), "--format", "openvino"]) == 0
    return run


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("other") / "run", "--bits", "2", "--seed", "1")


@pytest.fixture(scope="module")
def file(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "model.onnx"
    assert main(["export", str(run.path), "--out", str(path)]) == 0
    return path


def test_the_file_has_the_runs_accuracy(run: Run, file: Path) -> None:
    batches = Setup(run.config()).test_batches()
    session = load("onnxruntime", file)
    right = count = 0
    for images, labels in batches:
        right += int((session.run(images.contiguous().numpy())["output"].argmax(1) == labels.numpy()).sum())
        count += len(labels)
    assert right / count == run.summary()["accuracy"]["2-bit"]["test"]


def test_every_quantised_layer_is_an_integer_convolution(run: Run, file: Path) -> None:
    graph = onnx.load(file).graph
    stored = {each.name: each for each in graph.initializer}
    made_by = {output: node for node in graph.node for output in node.output}
    integer = 0
    for node in (each for each in graph.node if each.op_type == "Conv"):
        source = made_by.get(node.input[1])
        if source is not None:
            assert source.op_type == "DequantizeLinear"
            assert stored[source.input[0]].data_type == onnx.TensorProto.INT8
            integer += 1
    assert integer == len(run.summary()["plans"]["2-bit"])


def test_the_command_says_what_it_found(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run.path), "--out", str(tmp_path / "model.onnx")]) == 0
    said = capsys.readouterr().out
    assert "channels give the codes of float32 for every integer within reach" in said
    assert "in real numbers: stem, head" in said
    for runtime in runtimes.installed():
        assert f"{runtime}: pass, 355 images, agreement with the simulated model 100.00%" in said
    layers = len(run.summary()["plans"]["2-bit"])
    assert f"{layers} of {layers} layers read the codes of the simulated model in the reference\n" in said
    assert "of the weights in float32" in said
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_verify_passes_the_file_and_prints_numbers(run: Run, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(file), str(run.path), "--json"]) == 0
    for each in json.loads(capsys.readouterr().out):
        assert each["passes"]
        assert each["codes"]["exact"]["different"] == each["codes"]["edge"]["different"] == 0
        assert each["codes"]["exact"]["count"] > 100_000
        assert each["layers"] == dict.fromkeys(run.summary()["plans"]["2-bit"], 1.0)
        assert each["agreement"] == 1
        assert each["accuracy"] == run.summary()["accuracy"]["2-bit"]["test"]


@pytest.mark.parametrize("bits", ["4", "8"])
def test_other_bits_pass(tmp_path: Path, bits: str) -> None:
    run = trained(tmp_path / "run", "--bits", bits)
    assert main(["export", str(run.path)]) == 0
    assert (run.path / "model.onnx").exists()


def test_one_bit_passes(one_bit: Run, tmp_path: Path) -> None:
    assert main(["export", str(one_bit.path), "--out", str(tmp_path / "model.onnx")]) == 0


def test_a_mixed_plan_passes(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan: dict[str, Any] = dict.fromkeys(run.summary()["plans"]["2-bit"], Precision(2, 2))
    plan |= {"stages.0.0.conv0": Precision(None, None), "stages.1.0.conv0": Precision(4, 4)}
    write_plan(tmp_path / "plan.toml", plan, "by hand")
    path = tmp_path / "model.onnx"
    assert main(["export", str(run.path), "--plan", str(tmp_path / "plan.toml"), "--out", str(path)]) == 0
    assert main(["verify", str(path), str(run.path), "--plan", str(tmp_path / "plan.toml")]) == 0
    assert "was not exported from this run under this plan" in complaint(["verify", str(path), str(run.path)], capsys)


@pytest.mark.parametrize("form", ["onnx", "openvino"])
def test_a_packed_file_is_smaller_and_passes(
    run: Run, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    assert main(["export", str(run.path), "--pack", "--format", form, "--out", str(tmp_path / FORMATS[form].file)]) == 0
    assert ": pass, 355 images, agreement with the simulated model 100.00%" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / FORMATS[form].file), str(run.path)]) == 0
    if form == "onnx":
        assert (tmp_path / "model.onnx").stat().st_size < 0.7 * file.stat().st_size
    else:
        assert main(["export", str(run.path), "--format", form, "--out", str(tmp_path / "plain.xml")]) == 0
        assert (tmp_path / "model.bin").stat().st_size < 0.5 * (tmp_path / "plain.bin").stat().st_size


def test_one_bit_in_openvino_has_binary_kernels(one_bit: Run, capsys: pytest.CaptureFixture[str]) -> None:
    openvino = pytest.importorskip("openvino")
    assert {"model.xml", "model.bin"} < {each.name for each in one_bit.path.iterdir()}
    model = openvino.Core().compile_model(one_bit.path / "model.xml", "CPU").get_runtime_model()
    kernels = [each.get_rt_info()["layerType"].get() for each in model.get_ordered_ops()]
    assert kernels.count("BinaryConvolution") == len(one_bit.summary()["plans"]["1-bit"])
    capsys.readouterr()
    assert main(["verify", str(one_bit.path / "model.xml"), str(one_bit.path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["runtime"], found["agreement"], found["codes"]["exact"]["different"]) == ("openvino", 1, 0)


def test_a_qonnx_file_computes_as_the_simulated_model(
    run: Run, other: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model-qonnx.onnx"
    assert main(["export", str(run.path), "--format", "qonnx", "--out", str(path)]) == 0
    assert "onnxruntime: pass, 355 images, agreement with the simulated model 100.00%" in capsys.readouterr().out
    assert "qonnx.custom_op.general" in {each.domain for each in onnx.load(path).graph.node}
    assert main(["verify", str(path), str(run.path)]) == 0
    capsys.readouterr()
    assert "does not pass in onnxruntime" in complaint(["verify", str(path), str(other.path)], capsys)


def test_foreign_files_of_openvino_are_refused(
    run: Run, one_bit: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openvino")
    damaged, alone = tmp_path / "damaged.xml", tmp_path / "alone.xml"
    shutil.copy(one_bit.path / "model.xml", alone)
    capsys.readouterr()
    file = str(one_bit.path / "model.xml")
    assert "was not exported from this run" in complaint(["verify", file, str(run.path)], capsys)
    for content in ("<net", "<a/>", ""):
        damaged.write_text(content)
        assert "is damaged or not a model of OpenVINO's" in complaint(["verify", str(damaged), str(run.path)], capsys)
    assert "is damaged or not a model of OpenVINO's" in complaint(["verify", str(alone), str(one_bit.path)], capsys)


def test_a_torch_program_computes_the_same(run: Run, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    assert main(["export", str(run.path), "--format", "torch", "--out", str(path)]) == 0
    images, _ = next(iter(Setup(run.config()).test_batches()))
    with torch.no_grad():
        program = torch.export.load(path).module()(images[:7])
    np.testing.assert_allclose(
        program.numpy(), load("onnxruntime", file).run(images[:7].contiguous().numpy())["output"], rtol=1e-4, atol=1e-5
    )


def test_a_run_without_the_preset_is_exported_with_real_sums(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", *SMALL, "--bits", "2", "--out", str(run)]) == 0
    assert main(["export", str(run)]) == 0
    assert "pass" in capsys.readouterr().out


def test_a_file_that_fails_is_not_left_behind(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploy, "LEAST_AGREEMENT", 1.1)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"the last good one")
    assert main(["export", str(run.path), "--out", str(path)]) == 2
    assert "model.onnx was not written, since it fails in onnxruntime: agreement" in capsys.readouterr().err
    assert path.read_bytes() == b"the last good one"
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_bad_input_gets_one_sentence(run: Run, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged, foreign = tmp_path / "damaged.onnx", tmp_path / "plan.toml"
    damaged.write_bytes(file.read_bytes()[:1000])
    write_plan(foreign, {"conv9": Precision(2, 2)}, "of another model")
    path = str(run.path)
    assert "is damaged or not an ONNX file" in complaint(["verify", str(damaged), path], capsys)
    assert "there is no file" in complaint(["verify", str(tmp_path / "none.onnx"), path], capsys)
    (tmp_path / "model.pt2").write_bytes(b"")
    assert "that could run code" in complaint(["verify", str(tmp_path / "model.pt2"), path], capsys)
    assert "does not end in .onnx or .xml" in complaint(["verify", str(foreign), path], capsys)
    assert "must end in .onnx, since" in complaint(["export", path, "--out", str(tmp_path / "model.bin")], capsys)
    assert "--pack is for the formats" in complaint(["export", path, "--format", "torch", "--pack"], capsys)
    assert "there is no folder" in complaint(["export", path, "--out", str(tmp_path / "no" / "model.onnx")], capsys)
    assert "names the layer 'conv9'" in complaint(["export", path, "--plan", str(foreign)], capsys)
    assert "is not a run folder" in complaint(["export", str(tmp_path)], capsys)


def test_a_file_of_another_width_is_refused(
    run: Run, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = trained(tmp_path / "wide", "--bits", "2", "--width", "2")
    qonnx = tmp_path / "model-qonnx.onnx"
    assert main(["export", str(run.path), "--format", "qonnx", "--out", str(qonnx)]) == 0
    capsys.readouterr()
    for arguments in (["verify", str(file), str(wide.path)], ["verify", str(file), str(wide.path), "--json"]):
        assert "was not exported from this run under this plan" in complaint(arguments, capsys)
    assert "is a qonnx file, which no runtime runs as it is" in complaint(
        ["bench", str(qonnx), "--run", str(run.path)], capsys
    )
    model = onnx.load(qonnx)
    model.graph.output[0].name = model.graph.node[-1].output[0] = "another"
    onnx.save(model, qonnx)
    assert "it has no output 'output', but another" in complaint(["verify", str(qonnx), str(run.path)], capsys)


def test_another_models_file_does_not_pass(file: Path, other: Run, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    said = complaint(["verify", str(file), str(other.path)], capsys)
    assert "does not pass in onnxruntime" in said or "its operations are others" in said


def test_runs_that_can_not_be_exported_say_why(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full, both = tmp_path / "full", tmp_path / "both"
    assert main(["train", *SMALL, "--method", "full", "--out", str(full)]) == 0
    trained(both, "--bits", "2", "4")
    shutil.copytree(run.path, tmp_path / "unfinished")
    (tmp_path / "unfinished" / "summary.json").unlink()
    capsys.readouterr()
    assert "there is no low precision to export" in complaint(["export", str(full)], capsys)
    assert "has 2 plans; a file is written for a run with one" in complaint(["export", str(both)], capsys)
    assert "is not finished" in complaint(["export", str(tmp_path / "unfinished")], capsys)


def test_a_missing_runtime_names_its_extra(
    run: Run, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtimes, "installed", list)
    for arguments in (["verify", str(file), str(run.path)], ["bench", str(file), "--run", str(run.path)]):
        assert "pip install 'pdqat[export]'" in complaint(arguments, capsys)


@pytest.mark.parametrize("form", ["onnx", "qonnx"])
def test_a_missing_writer_names_its_extra(run: Run, tmp_path: Path, form: str) -> None:
    """In a process of its own, for which onnx is not there."""
    arguments = ["export", str(run.path), "--format", form, "--out", str(tmp_path / "model.onnx")]
    code = f"import sys; sys.modules['onnx'] = None; from pdqat.cli import main; sys.exit(main({arguments!r}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 2
    assert "need onnx: pip install 'pdqat[export]'" in found.stderr
    assert found.stderr.count("\n") == 1


def test_bench_times_the_file_beside_float32(
    run: Run, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "ROUNDS", 3)
    assert main(["bench", str(file), "--run", str(run.path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {(each["runtime"], each["batch"]) for each in found} == {
        (name, batch) for name in runtimes.installed() for batch in (1, 64)
    }
    assert all(each["integer"]["median"] > 0 and each["float32"]["n"] == 3 for each in found)
    assert main(["bench", str(file), "--run", str(run.path)]) == 0
    assert "times float32" in capsys.readouterr().out
    assert "give the run that model.onnx was exported from" in complaint(["bench", str(file)], capsys)


def test_the_float32_file_is_the_full_precision_view(run: Run, tmp_path: Path) -> None:
    chosen = chosen_model(run)
    write_float(chosen, tmp_path / "float32.onnx")
    images, _ = next(iter(chosen.setup.test_batches()))
    with torch.no_grad():
        wanted = chosen.setup.net(images).numpy()
    given = load("onnxruntime", tmp_path / "float32.onnx").run(images.contiguous().numpy())["output"]
    np.testing.assert_allclose(given, wanted, rtol=1e-3, atol=1e-4)
