"""Real files in real runtimes against the integer reference, code by code."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, fx, nn

from deployed_networks import Own, frozen, images, trained_like
from pdqat import prepare
from pdqat.errors import InputError
from pdqat.export.freeze import Frozen
from pdqat.export.onnx_file import to_onnx, with_codes
from pdqat.export.operations import IntegerProduct, ProductSums
from pdqat.export.runtimes import load
from pdqat.export.verify import follow, layer_agreement
from pdqat.models.preresnet import preresnet_small
from pdqat.models.resnet import resnet
from pdqat.quantizers import PowerOfTwo

RUNTIMES = ["onnxruntime", "openvino"]


def compare(found: Frozen, path: Path, runtime: str, x: Tensor, pack: bool = False) -> int:
    """How many codes differ from the reference; those made from real numbers may, but hardly do."""
    path.write_bytes(to_onnx(found.module, x, pack).SerializeToString())
    with torch.no_grad():
        wanted = found.module(x)
    given = load(runtime, path).run(x.numpy())["output"]
    off = np.abs(given - wanted.numpy()).max(1) > 1e-3
    assert off.mean() <= 0.1, "a code behind real numbers may move an image or two"
    path.write_bytes(with_codes(path, found.module, x).SerializeToString())
    codes = follow(found.module, load(runtime, path), x).codes
    assert codes.exact.count + codes.edge.count > 1000
    assert codes.real.count > 0
    assert codes.real.different <= 1e-3 * codes.real.count
    return codes.exact.different + codes.edge.different


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("bits", ["1", "2", "4", "8", "w2a4"])
def test_codes_of_a_pre_activation_network_are_the_references(tmp_path: Path, runtime: str, bits: str) -> None:
    pytest.importorskip(runtime)
    torch.manual_seed(0)
    net = prepare(preresnet_small(channels=3), images(), bits, quantizer="dorefa-int8", integer_sums=True)
    different = compare(frozen(trained_like(net, 1)), tmp_path / "model.onnx", runtime, images(32))
    assert different == 0


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_steep_roundings_of_few_bits_are_exact_too(tmp_path: Path, runtime: str) -> None:
    """Where an integer is many codes wide, no integer offset is fine enough."""
    pytest.importorskip(runtime)
    torch.manual_seed(0)
    net = prepare(preresnet_small(channels=3), images(), 2, quantizer="dorefa-int8", integer_sums=True)
    net = trained_like(net, 1)
    for module in net.modules():
        if isinstance(module, PowerOfTwo):
            module.largest *= 0.06
    found = frozen(net)
    assert any(isinstance(each, ProductSums) for each in found.module.modules())
    assert all(each.exact == each.channels for each in found.folded)
    assert set(layer_agreement(found, net, next(iter(net.plans.values())), images(32)).values()) == {1.0}
    assert compare(found, tmp_path / "model.onnx", runtime, images(32)) == 0


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_packed_weights_of_all_sizes_compute_the_same(tmp_path: Path, runtime: str) -> None:
    pytest.importorskip(runtime)
    torch.manual_seed(0)
    rules = {"stages.0.0.conv0": "4", "stages.1.0.conv0": "1", "stages.1.0.shortcut.conv": "8", "head": "4"}
    net = prepare(preresnet_small(channels=3), images(), 2, layers=rules, quantizer="dorefa-int8", integer_sums=True)
    found, path = frozen(trained_like(net, 4)), tmp_path / "model.onnx"
    assert compare(found, path, runtime, images(32), pack=True) == 0


def test_packed_weights_take_the_space_of_their_bits() -> None:
    torch.manual_seed(0)
    for bits, part in ((1, 1 / 8), (2, 1 / 4), (4, 1 / 2)):
        net = trained_like(prepare(preresnet_small(channels=3), images(), bits, integer_sums=True), 1)
        module = frozen(net).module
        weights = sum(each.weight.numel() for each in module.modules() if isinstance(each, IntegerProduct))
        sizes = [len(to_onnx(module, images(), pack).SerializeToString()) for pack in (False, True)]
        unpacking = 120 * len(net.layers) * 10
        assert weights * (1 - part) - unpacking < sizes[0] - sizes[1] < weights * (1 - part)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("bits", ["1", "2", "4"])
def test_codes_of_a_standard_network_are_the_references(tmp_path: Path, runtime: str, bits: str) -> None:
    pytest.importorskip(runtime)
    torch.manual_seed(0)
    net = prepare(resnet(8), images(), bits, quantizer="uniform", integer_sums=True)
    different = compare(frozen(trained_like(net, 1)), tmp_path / "model.onnx", runtime, images(32))
    assert different == 0


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("integer_sums", [True, False])
def test_a_mixed_plan(tmp_path: Path, runtime: str, integer_sums: bool) -> None:
    pytest.importorskip(runtime)
    torch.manual_seed(0)
    rules = {"stages.0.0.conv0": "full", "stages.1.0.conv0": "4", "stages.1.0.shortcut.conv": "1", "head": "8"}
    net = prepare(
        preresnet_small(channels=3), images(), 2, layers=rules, quantizer="dorefa-int8", integer_sums=integer_sums
    )
    different = compare(frozen(trained_like(net, 4)), tmp_path / "model.onnx", runtime, images(32))
    assert different == 0


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("groups", "kernel", "bits"), [(1, 3, 2), (2, 2, 1), (4, 1, 4), (1, 3, 8)])
def test_own_networks(tmp_path: Path, runtime: str, groups: int, kernel: int, bits: int) -> None:
    pytest.importorskip(runtime)
    torch.manual_seed(0)
    net = trained_like(prepare(Own(8, groups, kernel), images(), bits, quantizer="uniform-channel"), 5)
    assert compare(frozen(net), tmp_path / "model.onnx", runtime, images(32)) == 0


def test_a_function_that_onnx_does_not_get_is_named() -> None:
    class Odd(Own):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(torch.fft.fft(x).real)

    net = trained_like(prepare(Odd(4, 1, 1), images(), 2), 0)
    with pytest.raises(InputError, match=r"the function .* can't be written to ONNX"):
        to_onnx(frozen(net).module, images())


@pytest.mark.parametrize(("width", "kernels"), [(4, 0), (8, 3), (12, 0)])
def test_the_binary_kernel_is_used_where_it_is_right(tmp_path: Path, width: int, kernels: int) -> None:
    pytest.importorskip("openvino")
    from pdqat.export import openvino_file

    torch.manual_seed(0)
    layers = [nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(3)]
    blocks = [each for layer in layers for each in (nn.BatchNorm2d(width), nn.Hardtanh(0, 1), layer)]
    first, last = nn.Conv2d(3, width, 1), [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5)]
    net = trained_like(prepare(nn.Sequential(first, *blocks, *last), images(), 1), 1)
    found, x, path = frozen(net), images(32), tmp_path / "model.xml"
    assert len(openvino_file.binary_products(found.module)) == kernels
    openvino_file.save(openvino_file.to_openvino(found.module, x, pack=False), path)
    looking = tmp_path / "codes.xml"
    openvino_file.save(openvino_file.with_codes(path, found.module, x), looking)
    codes = follow(found.module, load("openvino", looking), x).codes
    assert codes.exact.count > 1000
    assert codes.exact.different == codes.edge.different == 0


def test_modules_without_effect_and_in_place_functions_are_written() -> None:
    layers = [nn.Conv2d(3, 4, 3), nn.Identity(), nn.ReLU6(inplace=True), nn.Dropout(), nn.Conv2d(4, 4, 3), nn.ReLU()]
    model = to_onnx(fx.symbolic_trace(nn.Sequential(*layers).eval()), images())
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
