"""Layers of every kind in integers: on sequences, transposed, with a forward of their own, as tables of rows."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deployed_networks import samples
from exported_files import check_file, check_float_file, prepared
from pdqat import prepare
from pdqat.deployment.export import export, write_float
from pdqat.deployment.runtimes import arrays, load


@pytest.mark.parametrize("bits", [2, 8])
@pytest.mark.parametrize("normalized", [True, False])
def test_linear_layers_read_more_than_one_vector_a_sample(bits: int, normalized: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    between = [nn.BatchNorm1d(4)] if normalized else []
    layers = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 12), *between, nn.ReLU(), nn.Linear(12, 8), nn.ReLU()]
    x = samples(6, 4, 6)
    net = prepare(nn.Sequential(*layers, nn.Linear(8, 3)), x, bits, quantizer="uniform-channel").eval()
    report = export(net, tmp_path / "model.onnx", x, check=[(x, None)])
    for result in report.verified:
        assert result.passes
        folded = result.codes.exact.count + result.codes.edge.count
        assert folded == (0 if normalized else 6 * 4 * 12)


class Transposed(nn.Sequential):
    """Up to larger images, by transposed convolutions of several shapes."""

    def __init__(self) -> None:
        super().__init__(
            *(nn.ConvTranspose2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU(True)),
            *(nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True)),
            *(nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1, groups=2), nn.ReLU(), nn.ConvTranspose2d(4, 2, 1)),
        )


def test_transposed_convolutions_are_exact(tmp_path: Path) -> None:
    x = samples(4, 4, 2, 2)
    net = prepared(Transposed(), x)
    report = export(net, tmp_path / "model.onnx", x, check=[(x, None)])
    for result in report.verified:
        assert result.passes
        assert result.codes.exact.count + result.codes.edge.count == 4 * 8 * 8 * 8
        assert result.codes.exact.different == 0
    assert report.real_layers == ["0", "8"]


class Padded(nn.Conv2d):
    """A convolution that pads by itself."""

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(F.pad(x, (0, 1, 0, 1)), self.weight, self.bias, self.stride, groups=self.groups)


def test_layers_with_a_forward_of_their_own(tmp_path: Path) -> None:
    x = samples(4, 3, 6, 6)
    layers = [Padded(3, 8, 2), nn.ReLU(), Padded(8, 8, 2, stride=2, groups=2), nn.BatchNorm2d(8), nn.ReLU6()]
    net = prepared(nn.Sequential(*layers, Padded(8, 8, 2), nn.ReLU(), nn.Conv2d(8, 2, 1)), x)
    check_file(net, x, tmp_path)
    report = export(net, tmp_path / "qonnx.onnx", x, check=[(x, None)], format="qonnx")
    assert report.verified[0].passes
    write_float(net, tmp_path / "float32.onnx", x)
    with torch.no_grad():
        wanted = net(x)
    made = load("onnxruntime", tmp_path / "float32.onnx").run(arrays({"input": x}))["output"]
    torch.testing.assert_close(torch.from_numpy(made), wanted, rtol=1e-4, atol=1e-4)


class Tokens(nn.Module):
    """An embedding in low precision, of which another layer is in front."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.middle, self.last = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, indices: Tensor) -> Tensor:
        y: Tensor = self.last(F.relu(self.middle(self.table(indices))).mean(1))
        return y


@pytest.mark.parametrize("quantizer", ["uniform", "uniform-channel"])
def test_embeddings_are_stored_in_bytes(quantizer: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    indices = torch.arange(30).view(6, 5) % 20
    net = prepare(Tokens(), indices, 4, quantizer=quantizer, layers={"table": "w4"}).eval()
    report = export(net, tmp_path / "model.onnx", indices, check=[(indices, None)])
    assert all(result.passes for result in report.verified)
    assert report.real_layers == ["last"]


def test_the_float32_file_of_an_embedding(tmp_path: Path) -> None:
    check_float_file(Tokens(), torch.arange(30).view(6, 5) % 20, tmp_path)
