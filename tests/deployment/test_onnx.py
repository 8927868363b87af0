"""Real files in real runtimes: every code and output explained, the integer kernels that they are written for."""

from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, fx, nn

from deployed_networks import (
    Own,
    deployable,
    frozen,
    images,
    labelled,
    residual,
    small_preresnet,
    standard,
    trained_like,
)
from pdqat import prepare
from pdqat.deployment import runtimes
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.export import export
from pdqat.deployment.formats.onnx_file import to_onnx
from pdqat.deployment.integer.operations import IntegerProduct, ProductSums
from pdqat.deployment.runtimes import load
from pdqat.errors import InputError
from pdqat.quantizers import PowerOfTwo
from sound_runtimes import skip_without_binary_kernels

RUNTIMES = ["onnxruntime", "openvino"]
MIXED = {"stages.0.0.conv0": "full", "stages.1.0.conv0": "4", "stages.1.0.shortcut.conv": "1", "head": "8"}


def check_file(model: Deployable, path: Path, pack: bool = False) -> None:
    """In every installed runtime, with codes of integers and of real numbers."""
    report = export(model.net, path, images(2), check=labelled(model.net, images(32)), pack=pack)
    readers = ["openvino"] if path.suffix == ".xml" else runtimes.installed()
    assert [result.runtime for result in report.verified] == readers
    for result in report.verified:
        assert result.passes
        assert result.codes.exact.count + result.codes.edge.count > 1000
        assert result.codes.real.count > 0
        assert result.outputs.count == 32


@pytest.mark.usefixtures("sound_runtimes")
@pytest.mark.parametrize("bits", ["1", "2", "4", "8", "w2a4"])
def test_files_of_a_pre_activation_network(tmp_path: Path, bits: str) -> None:
    check_file(residual(bits), tmp_path / "model.onnx")


@pytest.mark.parametrize("bits", ["1", "2", "4"])
def test_files_of_a_standard_network(tmp_path: Path, bits: str) -> None:
    check_file(standard(bits), tmp_path / "model.onnx")


def test_steep_roundings_of_few_bits_are_exact_too(tmp_path: Path) -> None:
    """Where an integer is many codes wide, no integer offset is fine enough."""
    torch.manual_seed(0)
    net = prepare(small_preresnet(), images(), 2, quantizer="dorefa-int8", integer_sums=True)
    net = trained_like(net, 1)
    for module in net.modules():
        if isinstance(module, PowerOfTwo):
            module.largest *= 0.06
    model = deployable(net)
    assert any(isinstance(operation, ProductSums) for operation in model.frozen.module.modules())
    assert all(rounding.exact == rounding.channels for rounding in model.frozen.folded)
    check_file(model, tmp_path / "model.onnx")


def test_packed_weights_of_all_sizes_compute_the_same(tmp_path: Path) -> None:
    torch.manual_seed(0)
    rules = {"stages.0.0.conv0": "4", "stages.1.0.conv0": "1", "stages.1.0.shortcut.conv": "8", "head": "4"}
    net = prepare(small_preresnet(), images(), 2, layers=rules, quantizer="dorefa-int8", integer_sums=True)
    check_file(deployable(trained_like(net, 4)), tmp_path / "model.onnx", pack=True)


@pytest.mark.parametrize(("bits", "part"), [("1", 1 / 8), ("2", 1 / 4), ("4", 1 / 2)])
def test_packed_weights_take_the_space_of_their_bits(bits: str, part: float) -> None:
    module = residual(bits).frozen.module
    products = [operation for operation in module.modules() if isinstance(operation, IntegerProduct)]
    weights = sum(operation.weight.numel() for operation in products)
    sizes = [len(to_onnx(module, (images(),), pack).SerializeToString()) for pack in (False, True)]
    unpacking = 120 * len(products) * 10
    assert weights * (1 - part) - unpacking < sizes[0] - sizes[1] < weights * (1 - part)


@pytest.mark.parametrize("integer_sums", [True, False])
def test_a_mixed_plan(tmp_path: Path, integer_sums: bool) -> None:
    torch.manual_seed(0)
    net = prepare(small_preresnet(), images(), 2, layers=MIXED, quantizer="dorefa-int8", integer_sums=integer_sums)
    check_file(deployable(trained_like(net, 4)), tmp_path / "model.onnx")


@pytest.mark.usefixtures("sound_runtimes")
@pytest.mark.parametrize(("groups", "kernel", "bits"), [(1, 3, 2), (2, 2, 1), (4, 1, 4), (1, 3, 8)])
def test_own_networks(tmp_path: Path, groups: int, kernel: int, bits: int) -> None:
    torch.manual_seed(0)
    net = trained_like(prepare(Own(8, groups, kernel), images(), bits, quantizer="uniform-channel"), 5)
    check_file(deployable(net), tmp_path / "model.onnx")


def test_a_function_that_onnx_does_not_get_is_named() -> None:
    class Odd(Own):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(torch.fft.fft(x).real)

    net = trained_like(prepare(Odd(4, 1, 1), images(), 2, quantizer="dorefa"), 0)
    with pytest.raises(InputError, match=r"the function .* can't be written to ONNX"):
        to_onnx(frozen(net).module, (images(),))


@pytest.mark.parametrize(("width", "kernels"), [(4, 0), (8, 3), (12, 0)])
def test_the_binary_kernel_is_used_where_it_is_right(tmp_path: Path, width: int, kernels: int) -> None:
    pytest.importorskip("openvino")
    from pdqat.deployment.formats.openvino_file import binary_products

    torch.manual_seed(0)
    layers = [nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(3)]
    blocks = [part for layer in layers for part in (nn.BatchNorm2d(width), nn.Hardtanh(0, 1), layer)]
    first, last = nn.Conv2d(3, width, 1), [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5)]
    net = trained_like(prepare(nn.Sequential(first, *blocks, *last), images(), 1, quantizer="dorefa"), 1)
    assert len(binary_products(frozen(net).module)) == kernels
    if kernels:
        skip_without_binary_kernels()
    check_file(deployable(net), tmp_path / "model.xml")


def test_modules_without_effect_and_in_place_functions_are_written() -> None:
    layers = [nn.Conv2d(3, 4, 3), nn.Identity(), nn.ReLU6(inplace=True), nn.Dropout(), nn.Conv2d(4, 4, 3), nn.ReLU()]
    model = to_onnx(fx.symbolic_trace(nn.Sequential(*layers).eval()), (images(),))
    assert [node.op_type for node in model.graph.node] == ["Conv", "Clip", "Conv", "Relu", "Identity"]


def test_a_file_without_inputs_is_refused(tmp_path: Path) -> None:
    constant = onnx.helper.make_node("Constant", [], ["output"], value_float=1.0)
    output = onnx.helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, [])
    graph = onnx.helper.make_graph([constant], "empty", [], [output])
    opset = [onnx.helper.make_opsetid("", 21)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10), tmp_path / "model.onnx")
    for runtime in RUNTIMES:
        pytest.importorskip(runtime)
        with pytest.raises(InputError, match="has 0 inputs; a model that was exported here has one"):
            load(runtime, tmp_path / "model.onnx")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match=r"onnxruntime can't load .*model.onnx"):
        load("onnxruntime", tmp_path / "model.onnx")


def test_an_unknown_runtime_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown runtime 'tea'; choose one of onnxruntime, openvino"):
        load("tea", tmp_path / "model.onnx")
