"""QONNX files, run by ONNX Runtime with functions for their Quant nodes, against the simulated model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from torch import Tensor, nn

from deployed_networks import (
    Own,
    bent_preresnet,
    images,
    labelled,
    simulated,
    small_preresnet,
    small_resnet,
    trained_like,
)
from pdqat import Network, prepare
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.export import export
from pdqat.deployment.formats.qonnx_file import to_qonnx
from pdqat.deployment.formats.quant_form import form_of_codes
from pdqat.deployment.formats.quant_functions import with_functions
from pdqat.deployment.integer.graph import codes_of
from pdqat.deployment.runtimes import load
from pdqat.errors import InputError
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.quantizers import DoReFaActivation, PowerOfTwo

MIXED = {"stages.0.0.conv0": "full", "stages.1.0.conv0": "4", "stages.1.0.shortcut.conv": "1", "head": "w8a3"}


def written(net: Network, example: Tensor) -> onnx.ModelProto:
    return to_qonnx(Deployable.of(net, None, example))


def with_outputs(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    described = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
    model.graph.output.extend(described)
    return model


def run(model: onnx.ModelProto, folder: Path, x: Tensor) -> dict[str, np.ndarray]:
    """A model with functions."""
    pytest.importorskip("onnxruntime")
    path = folder / "functions.onnx"
    path.write_bytes(model.SerializeToString())
    return dict(load("onnxruntime", path).run({"input": x.numpy()}))


def check_outputs(net: Network, folder: Path, x: Tensor) -> None:
    """All codes and outputs are explained: those of networks too that can't be written as integers."""
    report = export(net, folder / "model.onnx", x[:2], check=labelled(net, x), format="qonnx")
    (result,) = report.verified
    assert result.passes
    assert result.codes.simulated.count > 1000
    assert result.outputs.count == len(x)
    assert (report.folded, report.real_layers) == ([], [])


@pytest.mark.parametrize("quantizer", ["dorefa", "dorefa-int8"])
@pytest.mark.parametrize("bits", ["1", "2", "4", "8", "w2a4"])
@pytest.mark.parametrize("build", [small_preresnet, bent_preresnet])
def test_residual_networks_with_integer_sums(
    tmp_path: Path, build: Callable[[], nn.Module], bits: str, quantizer: str
) -> None:
    torch.manual_seed(0)
    net = prepare(build(), images(), bits, quantizer=quantizer, integer_sums=True)
    check_outputs(trained_like(net, 1), tmp_path, images(40))


@pytest.mark.parametrize("quantizer", ["uniform", "lsq", "dorefa-unscaled"])
@pytest.mark.parametrize("bits", ["1", "3"])
def test_other_quantizers(tmp_path: Path, bits: str, quantizer: str) -> None:
    torch.manual_seed(0)
    net = prepare(small_resnet(), images(), bits, quantizer=quantizer, integer_sums=quantizer == "uniform")
    check_outputs(trained_like(net, 2), tmp_path, images(40))


def test_a_mixed_plan(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = prepare(small_preresnet(), images(), 2, layers=MIXED, quantizer="dorefa-int8")
    net = trained_like(net, 4)
    check_outputs(net, tmp_path, images(40))
    model = written(net, images(1))
    quants = {node.output[0]: node for node in model.graph.node if node.op_type == "Quant"}
    assert not {"stem/weight", "stages.0.0.conv0/weight", "stages.0.0.conv0/input"} & set(quants)
    assert bits_of(model, quants["stages.1.0.conv0/weight"]) == 5
    assert bits_of(model, quants["stages.0.0.conv1/input"]) == 2
    assert bits_of(model, quants["head/weight"]) == 8
    assert bits_of(model, quants["head/input"]) == 3
    bipolar = [node.output[0] for node in model.graph.node if node.op_type == "BipolarQuant"]
    assert bipolar == ["stages.1.0.shortcut.conv/weight"]


def bits_of(model: onnx.ModelProto, quant: onnx.NodeProto) -> int:
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    assert constants[quant.input[3]].shape == (), "qonnx wants a scalar"
    return int(constants[quant.input[3]])


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([4, 8]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 8),
    st.sampled_from(["dorefa", "dorefa-int8", "uniform", "uniform-channel", "lsq"]),
    st.integers(0, 99),
)
def test_weights_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory,
    width: int,
    groups: int,
    bits: int,
    quantizer: str,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    net = trained_like(prepare(Own(width, groups, 3), images(), bits, quantizer=quantizer), seed)
    names = [name for name, layer in net.layers.items() if layer.views]
    model = with_functions(written(net, images(1)))
    with_outputs(model, [f"{name}/weight" for name in names])
    found = run(model, tmp_path_factory.mktemp("qonnx"), images(4))
    for name in names:
        layer = net.layers[name]
        view = layer.views[next(iter(net.plans))]
        assert isinstance(view, LayerQuantizers)
        wanted = view.weight.quantize(layer.weight, bits).detach().numpy()
        assert np.array_equal(found[f"{name}/weight"], wanted.T if wanted.ndim == 2 else wanted)


def test_weights_have_no_zero_points_but_a_bit_more() -> None:
    net = prepare(small_preresnet(), images(), 4, quantizer="dorefa").eval()
    model = written(net, images(1))
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    quants = [node for node in model.graph.node if node.op_type == "Quant"]
    assert all(float(constants[node.input[2]]) == 0 for node in quants)
    assert {bits_of(model, node) for node in quants if node.output[0].endswith("weight")} == {5}


@pytest.mark.parametrize("bits", range(1, 9))
def test_the_middle_gets_the_code_that_training_gives_it(bits: int) -> None:
    codes = codes_of(DoReFaActivation(), bits, "layer")
    form = form_of_codes("layer", codes, bits)
    values = torch.linspace(-0.2, 1.2, 1001)
    values = torch.cat([values, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])])
    quantized = torch.round((values / form.scale).clamp(0, codes.high))
    assert torch.equal(quantized.int(), codes.of(values))


def test_summands_have_eight_signed_bits() -> None:
    quantizer = PowerOfTwo()
    quantizer.calibrate(torch.tensor([3.0]), 8)
    form = form_of_codes("layer", codes_of(quantizer, 8, "layer", is_summand=True), 8)
    assert (float(form.scale), form.bits, form.signed, form.narrow) == (2**-5, 8, True, False)


def test_linear_networks_on_vectors_and_sequences(tmp_path: Path) -> None:
    torch.manual_seed(0)
    for shape in ((40, 6), (10, 4, 6)):
        x = torch.randn(shape)
        layers = [nn.Linear(6, 16), nn.Hardtanh(0, 1), nn.Linear(16, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 3)]
        net = prepare(nn.Sequential(*layers), x, 4, quantizer="dorefa").eval()
        found = run(with_functions(written(net, x[:2])), tmp_path, x)["output"]
        np.testing.assert_allclose(found, simulated(net, x).numpy(), rtol=1e-4, atol=1e-5)


def test_clips_that_quantisers_repeat_are_relus() -> None:
    model = written(prepare(small_preresnet(), images(), 2, quantizer="dorefa").eval(), images(1))
    kinds = [node.op_type for node in model.graph.node]
    assert "Clip" not in kinds
    assert "Relu" in kinds


def test_a_network_is_left_as_it_was() -> None:
    net = prepare(small_preresnet(), images(), 2, quantizer="dorefa").train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    written(net, images(2))
    assert net.training
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())


def refusal(model: nn.Module, x: Tensor) -> str:
    with pytest.raises(InputError) as found:
        written(prepare(model, x, 2, quantizer="dorefa"), x)
    return str(found.value)


def test_what_can_not_be_written_is_named() -> None:
    padded = nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")
    assert "layer 1 can't be exported: its padding mode is 'reflect'" in refusal(
        nn.Sequential(nn.Conv2d(3, 4, 3), padded, nn.Conv2d(4, 4, 3)), images()
    )
    layers = [nn.Conv2d(3, 4, 3), nn.Softshrink(), nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3)]
    assert "1: the function softshrink can't be written to ONNX" in refusal(nn.Sequential(*layers), images())
    without = nn.BatchNorm2d(4, track_running_stats=False)
    assert "norm 1 can't be exported: it keeps no running statistics" in refusal(
        nn.Sequential(nn.Conv2d(3, 4, 3), without, nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3)), images()
    )


def test_weights_without_a_scale_are_named() -> None:
    layers = [nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)]
    nn.init.zeros_(layers[1].weight)
    assert "layer 1 can't be exported: its weights' scale is 0" in refusal(nn.Sequential(*layers), torch.rand(2, 4))
