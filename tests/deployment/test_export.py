"""`export` and `verify_file`: what is written, what is said, what is refused, and what is left as it was."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deployed_networks import images, labelled, residual, small_preresnet, trained_like
from pdqat import BitPlan, InputError, Lagrangian, Network, Precision, prepare
from pdqat.deployment import runtimes
from pdqat.deployment.export import export, verify_file, write_float
from pdqat.deployment.report import ExportReport, describe
from pdqat.deployment.runtimes import load
from pdqat.models.preresnet import PreResNet
from sound_runtimes import skip_without_binary_kernels

Written = tuple[ExportReport, Path]


def batches(net: Network) -> list[tuple[Tensor, Tensor]]:
    return labelled(net, images(24))


@pytest.fixture(scope="module")
def net() -> Network:
    return residual("2").net


@pytest.fixture(scope="module")
def written(net: Network, tmp_path_factory: pytest.TempPathFactory) -> Written:
    path = tmp_path_factory.mktemp("file") / "model.onnx"
    return export(net, path, images(2), check=batches(net)), path


@pytest.fixture(scope="module")
def one_bit(tmp_path_factory: pytest.TempPathFactory) -> Written:
    skip_without_binary_kernels()
    pytest.importorskip("openvino")
    path, net = tmp_path_factory.mktemp("one-bit") / "model.xml", residual("1").net
    return export(net, path, images(2), check=batches(net)), path


def refusal(net: Network, path: Path, plan: str | None = None) -> str:
    with pytest.raises(InputError) as error:
        verify_file(net, plan, path, images(2), batches(net))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_every_quantised_layer_is_an_integer_convolution(net: Network, written: Written) -> None:
    graph = onnx.load(written[1]).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    made_by = {output: node for node in graph.node for output in node.output}
    integer = 0
    for node in (node for node in graph.node if node.op_type == "Conv"):
        source = made_by.get(node.input[1])
        if source is not None:
            assert source.op_type == "DequantizeLinear"
            weight = source.input[0]
            if weight in stored:
                assert stored[weight].data_type == onnx.TensorProto.INT8
                integer += 1
            else:  # of a sum, whose weights are made when the file is loaded
                assert [attribute.i for attribute in made_by[weight].attribute] == [onnx.TensorProto.INT8]
    assert integer == len(next(iter(net.plans.values())).low_layers)


def test_the_report_says_what_was_found(net: Network, written: Written) -> None:
    report, path = written
    assert report.path == path
    assert report.bytes == path.stat().st_size
    assert report.float32_bytes == 4 * sum(weight.numel() for weight in small_preresnet().parameters())
    assert report.real_layers == ["stem", "head"]
    assert set(report.layers) == set(next(iter(net.plans.values())).low_layers)
    shown = str(report)
    assert "channels give the codes of float32 for every integer within reach" in shown
    assert "in real numbers: stem, head" in shown
    for runtime in runtimes.installed():
        assert f" {runtime} " in shown
    assert shown.count(" pass ") == len(runtimes.installed())
    assert "100.00%" in shown
    assert "layers read the codes of the simulated model in the reference" in shown
    assert "of the weights in float32" in shown
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]


def test_accuracy_is_the_simulated_models(written: Written) -> None:
    for result in written[0].verified:
        assert result.images == 24
        assert result.accuracy == result.simulated_accuracy == result.agreement == 1


def test_a_file_passes_again(net: Network, written: Written) -> None:
    told: list[str] = []
    results = verify_file(net, "2-bit", written[1], images(2), batches(net), told.append)
    assert [result.runtime for result in results] == runtimes.installed()
    assert all(result.passes and result.codes.exact.count > 10_000 for result in results)
    assert told == ["folding the network into integers", f"verifying in {' and '.join(runtimes.installed())}"]


@pytest.mark.parametrize("name", ["model.onnx", "model.xml"])
def test_a_packed_file_is_smaller_and_passes(net: Network, written: Written, tmp_path: Path, name: str) -> None:
    report = export(net, tmp_path / name, images(2), check=batches(net), pack=True)
    assert all(result.passes for result in verify_file(net, None, tmp_path / name, images(2), batches(net)))
    if name == "model.onnx":
        assert report.bytes < written[0].bytes
    else:
        export(net, tmp_path / "plain.xml", images(2), check=batches(net))
        assert (tmp_path / "model.bin").stat().st_size < 0.6 * (tmp_path / "plain.bin").stat().st_size


def test_one_bit_in_openvino_has_binary_kernels(one_bit: Written) -> None:
    import openvino

    report, path = one_bit
    assert sorted(file.name for file in path.parent.iterdir()) == ["model.bin", "model.xml"]
    assert report.bytes == sum(file.stat().st_size for file in path.parent.iterdir())
    model = openvino.Core().compile_model(path, "CPU").get_runtime_model()
    kernels = [operation.get_rt_info()["layerType"].get() for operation in model.get_ordered_ops()]
    assert kernels.count("BinaryConvolution") == len(report.layers)


def test_a_qonnx_file_computes_as_the_simulated_model(net: Network, tmp_path: Path) -> None:
    path = tmp_path / "model-qonnx.onnx"
    report = export(net, path, images(2), check=batches(net), format="qonnx")
    assert str(report).count(" pass ") == 1
    assert "qonnx.custom_op.general" in {node.domain for node in onnx.load(path).graph.node}
    (result,) = verify_file(net, None, path, images(2), batches(net))
    assert result.passes
    (foreign,) = verify_file(residual("2", seed=2).net, None, path, images(2), batches(net))
    assert foreign.codes.simulated.unexplained > 0
    assert not foreign.passes
    model = onnx.load(path)
    model.graph.output[0].name = model.graph.node[-1].output[0] = "another"
    onnx.save(model, path)
    assert "it has no output 'output', but another" in refusal(net, path)


def test_a_torch_program_computes_the_same(net: Network, tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    assert export(net, path, images(2), check=batches(net)).verified[0].runtime == "torch"
    with torch.no_grad():
        program = torch.export.load(path).module()(images(7))
    np.testing.assert_allclose(program.numpy(), residual("2").frozen.module(images(7)).detach(), rtol=1e-4, atol=1e-5)


def test_a_file_of_another_network_fails(written: Written) -> None:
    other = residual("2", seed=2).net
    results = verify_file(other, None, written[1], images(2), batches(other))
    assert not any(result.passes for result in results)
    assert "not explained by rounding: " in describe(results[0])


def test_files_of_other_shapes_and_plans_are_refused(net: Network, written: Written, one_bit: Written) -> None:
    wide = prepare(PreResNet(1, (8, 8, 24)), images(), 2, quantizer="dorefa-int8", integer_sums=True)
    for other in (wide, residual("8").net):
        assert "was not exported from this network under this plan" in refusal(other, written[1])
    assert "was not exported from this network under this plan" in refusal(net, one_bit[1])


def test_damaged_files_are_refused(net: Network, written: Written, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(written[1].read_bytes()[:1000])
    assert "is damaged or not an ONNX file" in refusal(net, damaged)
    assert "there is no file" in refusal(net, tmp_path / "none.onnx")
    for name, reason in (("model.pt2", "that could run code"), ("plan.toml", "does not end in .onnx or .xml")):
        (tmp_path / name).write_bytes(b"")
        assert reason in refusal(net, tmp_path / name)


def test_damaged_files_of_openvino_are_refused(one_bit: Written, tmp_path: Path) -> None:
    alone, damaged = tmp_path / "alone.xml", tmp_path / "damaged.xml"
    shutil.copy(one_bit[1], alone)
    for content in ("<net", "<a/>", ""):
        damaged.write_text(content)
        assert "is damaged or not a model of OpenVINO's" in refusal(residual("1").net, damaged)
    assert "is damaged or not a model of OpenVINO's" in refusal(residual("1").net, alone)


@pytest.mark.parametrize("name", ["model.onnx", "model.xml"])
def test_a_file_that_fails_is_not_left_behind(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"the last good one")
    model = small_preresnet()
    broken = trained_like(prepare(model, images(), 2, quantizer="dorefa-int8", integer_sums=True), 1)
    nn.init.constant_(model.head.bias, torch.nan)
    with pytest.raises(InputError, match=f"{name} was not written, since it fails in .*: .*not explained by rounding"):
        export(broken, path, images(2), check=[(images(8), torch.zeros(8, dtype=torch.long))])
    assert path.read_bytes() == b"the last good one"
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_network_is_left_as_it_was(tmp_path: Path) -> None:
    model = small_preresnet()
    net = prepare(model, images(), 2, quantizer="dorefa-int8", integer_sums=True).double().train()
    model.head.eval()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    export(net, str(tmp_path / "model.onnx"), images(2), check=iter([(images(4), torch.zeros(4).long())]))
    write_float(net, tmp_path / "float32.onnx", images(2))
    assert modes == [module.training for module in net.modules()]
    assert all(value.dtype == before[key].dtype and value.equal(before[key]) for key, value in net.state_dict().items())


def test_several_plans_must_be_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 4)]
    net = prepare(nn.Sequential(*layers), images(), ["2", "4"], quantizer="uniform")
    path, check = tmp_path / "model.onnx", [(images(8), torch.zeros(8, 2, 1, 1))]
    with pytest.raises(InputError, match="the network has 2 plans, 2-bit, 4-bit: name the one to export"):
        export(net, path, images(2), check=check)
    with pytest.raises(InputError, match="the network has no plan '8-bit'; it was prepared with 2-bit, 4-bit"):
        export(net, path, images(2), check=check, plan="8-bit")
    with pytest.raises(InputError, match="is not the one of that name"):
        export(net, path, images(2), check=check, plan=BitPlan("2-bit", {"2": Precision(3, 3)}))
    for plan in ("4-bit", net.plans["2-bit"]):
        assert export(net, path, images(2), check=check, plan=plan).verified[0].choices is None


def test_what_is_no_network_no_file_and_no_input_of_it_is_refused(net: Network, tmp_path: Path) -> None:
    path, check = tmp_path / "model.onnx", [(images(8), torch.zeros(8))]
    with pytest.raises(InputError, match=r"a prepared network is exported, such as problem.net, not a Lagrangian"):
        export(Lagrangian(net, F.cross_entropy), path, images(2), check=check)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the file is named by text or a path, not None"):
        export(net, None, images(2), check=check)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"the model can't process the example input \(shape \(2, 3, 3\)\)"):
        export(net, path, images(2)[:, :, 0, :3], check=check)
    with pytest.raises(InputError, match=r"batches must be an iterable of \(inputs, target\)"):
        export(net, path, images(2), check=5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a batch must be a pair of inputs and target, not a Tensor"):
        export(net, path, images(2), check=images(8))


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("model.bin", {}, "model.bin does not end in .onnx, .xml or .pt2"),
        ("model.bin", {"format": "onnx"}, "model.bin must end in .onnx, since the format is onnx"),
        ("model.onnx", {"format": "tea"}, "unknown format 'tea'; choose one of onnx, openvino, qonnx, torch"),
        ("model.pt2", {"pack": True}, "packing is for formats that hold integer weights, onnx and openvino, not"),
        ("no/model.onnx", {}, "there is no folder"),
    ],
)
def test_bad_names_get_one_sentence(
    net: Network, tmp_path: Path, name: str, options: dict[str, object], reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        export(net, tmp_path / name, images(2), check=[], **options)  # type: ignore[arg-type]


def test_a_missing_runtime_names_its_extra(net: Network, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "installed", list)
    assert "pip install 'pdqat[export]'" in refusal(net, written[1])


@pytest.mark.parametrize("form", ["onnx", "qonnx"])
def test_a_missing_writer_names_its_extra(tmp_path: Path, form: str) -> None:
    """In a process of its own, for which onnx is not there."""
    code = f"""
import sys
sys.modules["onnx"] = None
import torch
from torch import nn
from pdqat import InputError, prepare
from pdqat.deployment.export import export
x = torch.rand(2, 4)
try:
    export(prepare(nn.Sequential(*(nn.Linear(4, 4) for _ in range(3))), x), "model.onnx", x, check=[], format={form!r})
except InputError as error:
    print(error)
"""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert made.stdout.endswith("need onnx: pip install 'pdqat[export]'\n") or "and ml-dtypes" in made.stdout
    assert made.stdout.count("\n") == 1


def test_the_float32_file_is_the_full_precision_view(net: Network, tmp_path: Path) -> None:
    write_float(net, tmp_path / "float32.onnx", images(2))
    with torch.no_grad():
        wanted = net(images(8)).numpy()
    given = load("onnxruntime", tmp_path / "float32.onnx").run({"input": images(8).numpy()})["output"]
    np.testing.assert_allclose(given, wanted, rtol=1e-3, atol=1e-4)
