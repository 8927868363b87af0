"""Models of the plain kinds, written by a user, as files: every quantiser, several bits, both runtimes."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deployed_networks import samples, simulated, trained_like
from pdqat import InputError, Network, prepare
from pdqat.deployment import runtimes
from pdqat.deployment.export import export


def convolutional() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 1), nn.BatchNorm2d(12), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)),
    )


def perceptron() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout()),
        *(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)),
    )


def one_dimensional() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv1d(2, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Conv1d(8, 12, 3, padding=1), nn.BatchNorm1d(12), nn.ReLU(), nn.AvgPool1d(2)),
        *(nn.Conv1d(12, 12, 3), nn.BatchNorm1d(12), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()),
        *(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)),
    )


class Functions(nn.Module):
    """The same kinds of operations, as functions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv0, self.norm, self.conv1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3)
        self.hidden0, self.hidden1, self.last = nn.Linear(72, 10), nn.Linear(10, 10), nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.conv0(x))), 2)
        x = F.avg_pool2d(F.relu(self.conv1(x)), 2, 1, 1)
        x = F.dropout(x.view(x.size(0), -1), 0.5, self.training)
        y: Tensor = self.last(F.relu(self.hidden1(F.relu(self.hidden0(x)))))
        return y


SHAPES = {convolutional: (3, 8, 8), perceptron: (6,), one_dimensional: (2, 32), Functions: (3, 8, 8)}


def own(kind: object, bits: str, quantizer: str, layers: dict[str, str] | None = None) -> tuple[Network, Tensor]:
    torch.manual_seed(0)
    make = next(make for make in SHAPES if make is kind)
    x = samples(48, *SHAPES[make])
    net = prepare(make(), x, bits, quantizer=quantizer, layers=layers)
    return trained_like(net, 1, SHAPES[make]), x


def check_files(net: Network, x: Tensor, folder: Path) -> None:
    choices = simulated(net, x).argmax(1)
    for name, readers in (("model.onnx", runtimes.installed()), ("model.xml", ["openvino"])):
        if set(readers) <= set(runtimes.installed()):
            report = export(net, folder / name, x[:2], check=[(x[:32], choices[:32]), (x[32:], choices[32:])])
            assert [result.runtime for result in report.verified] == readers
            assert all(result.passes and result.images == len(x) for result in report.verified)


@pytest.mark.usefixtures("sound_runtimes")
@pytest.mark.parametrize("bits", ["2", "4", "8"])
@pytest.mark.parametrize("quantizer", ["uniform", "uniform-channel", "dorefa-int8"])
@pytest.mark.parametrize("kind", [convolutional, perceptron, one_dimensional])
def test_plain_models_are_exported(tmp_path: Path, kind: object, quantizer: str, bits: str) -> None:
    check_files(*own(kind, bits, quantizer), tmp_path)


@pytest.mark.usefixtures("sound_runtimes")
@pytest.mark.parametrize("kind", [convolutional, one_dimensional])
def test_mixed_plans_are_exported(tmp_path: Path, kind: object) -> None:
    check_files(*own(kind, "2", "uniform", {"4": "8", "8": "w4a8", "0": "full", "15": "4"}), tmp_path)


def test_functions_are_exported_as_modules_are(tmp_path: Path) -> None:
    check_files(*own(Functions, "4", "dorefa"), tmp_path)


class Regression(nn.Sequential):
    """One number a sample."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return y.squeeze(1)


@pytest.mark.parametrize("squeezed", [True, False])
def test_a_regression_is_compared_by_its_outputs(tmp_path: Path, squeezed: bool) -> None:
    torch.manual_seed(0)
    layers, x = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)], samples(32, 6)
    net = prepare((Regression if squeezed else nn.Sequential)(*layers), x, 4, quantizer="uniform")
    report = export(net, tmp_path / "model.onnx", x[:2], check=[(x, torch.rand(32))])
    for result in report.verified:
        assert result.passes
        assert (result.outputs.count, result.choices, result.accuracy) == (32, None, None)
    assert " - " in str(report)


def around(between: nn.Module) -> tuple[Network, Tensor]:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), between, nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)]
    x = samples(4, 3, 8, 8)
    return prepare(nn.Sequential(*layers), x, 2, quantizer="dorefa"), x


@pytest.mark.parametrize(
    "between",
    [
        nn.Softplus(),
        nn.GELU(),
        nn.GroupNorm(2, 4),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.AdaptiveAvgPool2d(3),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Sequential(nn.Flatten(0, 1), nn.Unflatten(0, (-1, 4))),
    ],
)
@pytest.mark.usefixtures("sound_runtimes")
def test_functions_of_real_numbers_stand_between_layers(tmp_path: Path, between: nn.Module) -> None:
    net, x = around(between)
    report = export(net, tmp_path / "model.onnx", x[:2], check=[(x, torch.rand(4))])
    assert all(result.passes for result in report.verified)


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        (nn.Softshrink(), "3: the function softshrink can't be written to ONNX"),
        (nn.Softplus(threshold=5), "3: a softplus with a threshold of 5, below 18, can't be written to ONNX"),
        (nn.AvgPool2d(2, divisor_override=3), "3: an average with a divisor of its own can't be written to ONNX"),
    ],
)
def test_what_can_not_be_exported_is_named_and_nothing_is_written(
    tmp_path: Path, between: nn.Module, reason: str
) -> None:
    net, x = around(between)
    with pytest.raises(InputError) as error:
        export(net, tmp_path / "model.onnx", x, check=[(x, None)])
    assert not list(tmp_path.iterdir())
    assert str(error.value).startswith(reason)


@pytest.mark.usefixtures("sound_runtimes")
@pytest.mark.parametrize("norm", [nn.GroupNorm(4, 8), nn.InstanceNorm2d(8), nn.LayerNorm([8, 6, 6])], ids=str)
def test_a_norm_of_samples_keeps_its_epsilon_behind_integers(tmp_path: Path, norm: nn.Module) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, bias=False), norm)
    model.extend([nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 3, 1)])
    with torch.no_grad():
        model.get_parameter("2.weight").mul_(0.02)  # so that the variance is not far from epsilon
    x = samples(16, 3, 8, 8)
    report = export(prepare(model, x, 4).eval(), tmp_path / "model.onnx", x[:4], check=[(x, None)])
    assert all(result.passes and result.codes.real.different <= 2 for result in report.verified)
