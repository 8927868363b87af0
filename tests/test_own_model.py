"""Models of users' own kinds go all the way: prepare, train, save, load into a fresh copy, same outputs."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import (
    Ascent,
    BlockConstraint,
    ChannelConstraint,
    Constraint,
    Lagrangian,
    LayerConstraint,
    Network,
    OutputConstraint,
    prepare,
)
from pdqat.quantizers import SCHEMES

CLASSES = 3


class Grouped(nn.Sequential):
    """Grouped and depthwise convolutions, with all the options that convolutions have."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(2, 8, 3, padding=1, padding_mode="reflect"),
            nn.BatchNorm2d(8),
            nn.ReLU6(),
            nn.Conv2d(8, 8, 3, stride=2, groups=8, padding="valid"),
            nn.BatchNorm2d(8, affine=False),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 12, 1, groups=4, bias=False),
            nn.BatchNorm2d(12, momentum=None),
            nn.Hardswish(),
            nn.Conv2d(12, 12, 2, dilation=2, padding="same", padding_mode="circular"),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(12, CLASSES),
        )


class Residual(nn.Module):
    """A residual block with in-place addition and ReLU, as in torchvision."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 6, 3, padding=1)
        self.conv0, self.norm0 = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.conv1, self.norm1 = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.stem(x))
        y = self.norm1(self.conv1(self.relu(self.norm0(self.conv0(x)))))
        y += x
        result: Tensor = self.head(self.relu(y).mean((2, 3)))
        return result


class Perceptron(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            *(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.GELU()),
            *(nn.Linear(8, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Tanh(), nn.Dropout(0.2)),
            *(nn.Linear(8, 8, bias=False), nn.LayerNorm(8), nn.ELU()),
            nn.Linear(8, CLASSES),
        )


class Encoder(nn.Module):
    """A transformer encoder layer on a sequence, its attention written with linear layers."""

    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(4, width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm0, self.norm1 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        a = self.norm0(h)
        q, k, v = (layer(a).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        h = h + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        h = h + self.down(F.gelu(self.up(self.norm1(h))))
        y: Tensor = self.head(h.mean(1))
        return y


class Signal(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv1d(2, 6, 3), nn.BatchNorm1d(6), nn.ReLU(), nn.MaxPool1d(2)),
            *(nn.Conv1d(6, 6, 3, groups=2), nn.BatchNorm1d(6), nn.ReLU()),
            *(nn.Conv1d(6, 4, 3, padding=1), nn.Flatten(), nn.Linear(4 * 5, CLASSES)),
        )


class Volume(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU()),
            *(nn.Conv3d(4, 4, 3), nn.BatchNorm3d(4), nn.ReLU()),
            *(nn.Conv3d(4, 4, 1), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, CLASSES)),
        )


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], list[str]]] = {
    "grouped and depthwise": (Grouped, (2, 9, 9), ["3", "6", "9"]),
    "residual": (Residual, (2, 6, 6), ["conv0", "conv1"]),
    "perceptron": (Perceptron, (5,), ["3", "7"]),
    "transformer encoder": (Encoder, (6, 4), ["q", "k", "v", "out", "up", "down"]),
    "one dimension": (Signal, (2, 16), ["4", "7"]),
    "three dimensions": (Volume, (1, 5, 5, 5), ["3", "6"]),
}
every_model = pytest.mark.parametrize("name", MODELS)


def batch(name: str, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(8, *MODELS[name][1], generator=generator), torch.arange(8) % CLASSES


def prepared(name: str, quantizer: str, seed: int = 0) -> Network:
    torch.manual_seed(seed)
    return prepare(MODELS[name][0](), batch(name, seed)[0], [2, "w4a8"], quantizer=quantizer)


def train(net: Network, name: str, constraints: list[Constraint]) -> None:
    lagrangian = Lagrangian(net, F.cross_entropy, constraints, gradient="straight-through", duals=Ascent(1.0))
    optimizer = torch.optim.Adam(lagrangian.parameters(), 0.01)
    for step in range(2):
        optimizer.zero_grad()
        loss = lagrangian(*batch(name, step))
        assert loss.isfinite()
        loss.backward()
        optimizer.step()
        assert lagrangian.dual_step().isfinite().all()


@torch.no_grad()
def outputs(net: Network, x: Tensor) -> dict[str, Tensor]:
    net.eval()
    result = {"full": net(x)}
    for plan in net.plans:
        with net.under(plan):
            result[plan] = net(x)
    return result


@every_model
@pytest.mark.parametrize("quantizer", SCHEMES)
def test_trained_saved_and_loaded(name: str, quantizer: str, tmp_path: Path) -> None:
    net = prepared(name, quantizer)
    assert list(net.layers) == MODELS[name][2]
    before = {key: value.clone() for key, value in net.model.named_parameters()}
    train(net, name, [OutputConstraint("kl"), LayerConstraint("squared", 0.01)])
    weights = [key for key, value in before.items() if key.endswith("weight") and value.dim() > 1]
    assert [key for key in weights if torch.equal(before[key], net.model.get_parameter(key))] == []

    torch.save(net.state_dict(), tmp_path / "model.pt")
    fresh = prepared(name, quantizer, seed=1)
    fresh.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    x, _ = batch(name, 2)
    expected, loaded = outputs(net, x), outputs(fresh, x)
    assert {view for view in expected if not torch.equal(expected[view], loaded[view])} == set()
    assert not torch.allclose(expected["full"], expected["2-bit"])
    assert not torch.equal(expected["w4a8"], expected["2-bit"])


@every_model
@pytest.mark.parametrize("distance", ["relative", "absolute"])
def test_every_channel_of_every_kind_of_layer(name: str, distance: str) -> None:
    net = prepared(name, "dorefa")
    train(net, name, [OutputConstraint(), ChannelConstraint(distance)])


@every_model
@pytest.mark.parametrize("quantizer", ["dorefa", "uniform"])
def test_many_bits_are_as_good_as_full_precision(name: str, quantizer: str) -> None:
    """At 8 bits the low-precision layers compute almost what they compute in full precision, on the same input."""
    torch.manual_seed(0)
    x, y = batch(name, 0)
    net = prepare(MODELS[name][0](), x, [1, 8], quantizer=quantizer)
    lagrangian = Lagrangian(net, F.cross_entropy, [LayerConstraint("relative")]).eval()
    few, many = lagrangian.terms(x, y).distances.chunk(2)
    assert (many < 2e-3).all()
    assert few.mean() > 100 * many.mean()


def test_a_block_with_several_inputs() -> None:
    class Merge(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor, *, other: Tensor) -> Tensor:
            y: Tensor = self.left(x) + self.right(other)
            return y

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.merge, self.last = nn.Linear(3, 4), Merge(), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = self.first(x)
            y: Tensor = self.last(self.merge(h, other=h.relu()))
            return y

    x, y = torch.rand(6, 3), torch.arange(6) % 2
    lagrangian = Lagrangian(prepare(Model(), x), F.cross_entropy, [BlockConstraint(blocks=["merge"])])
    value = lagrangian(x, y)
    assert value.isfinite()
    assert lagrangian.mean_distances().item() > 0
