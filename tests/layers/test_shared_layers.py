"""Layers and norms that are called several times, and weights that several of them share."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import Lagrangian, LayerConstraint, prepare
from pdqat.quantizers import SCHEMES, DoReFaActivation, DoReFaWeight

X, Y = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
BLOCKS = ["stages.1.0", "stages.2.0"]


class Shared(nn.Module):
    """Two layers with one weight, one layer under two names, one layer called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.a, self.b = nn.Linear(6, 6, bias=False), nn.Linear(6, 6)
        self.b.weight = self.a.weight
        self.again = self.c = nn.Linear(6, 6)
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.b(self.a(self.first(x)).relu()).relu()
        for _ in range(2):
            h = self.c(h).relu()
        y: Tensor = self.last(self.again(h))
        return y


@pytest.mark.parametrize("quantizer", SCHEMES)
def test_shared_weights_stay_shared(quantizer: str) -> None:
    torch.manual_seed(0)
    x, y = torch.rand(8, 4), torch.arange(8) % 3
    model = Shared()
    net = prepare(model, x, [1, 2], quantizer=quantizer)
    assert list(net.layers) == ["a", "b", "again"]
    assert model.a.weight is model.b.weight
    assert model.c is model.again
    for gradient in ("exact", "straight-through"):
        lagrangian = Lagrangian(net, F.cross_entropy, gradient=gradient)
        optimizer = torch.optim.SGD(lagrangian.parameters(), 0.1)
        before = model.a.weight.clone()
        value = lagrangian(x, y)
        assert value.isfinite()
        value.backward()
        optimizer.step()
        assert not torch.equal(model.a.weight, before)
        assert model.a.weight is model.b.weight
    fresh = prepare(Shared(), x, [1, 2], quantizer=quantizer)
    fresh.load_state_dict(net.state_dict())
    for plan in (None, "1-bit", "2-bit"):
        with net.eval().under(plan), fresh.eval().under(plan):
            assert torch.equal(net(x), fresh(x))


def test_a_layer_called_several_times_has_one_constraint_on_the_mean_of_its_calls() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle, self.last = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            h = self.first(x)
            y: Tensor = self.last(self.middle(h) + self.middle(2 * h))
            return y

    torch.manual_seed(0)
    x = torch.rand(8, 4)
    model = Twice()
    lagrangian = Lagrangian(prepare(model, x, quantizer="dorefa"), F.mse_loss, [LayerConstraint("relative")])
    assert [bound.name for bound in lagrangian.bounds] == ["2-bit/layer/middle"]
    h, weight, bias = F.linear(x, model.first.weight, model.first.bias), model.middle.weight, model.middle.bias
    weights = DoReFaWeight().full(weight), DoReFaWeight().quantize(weight, 2)
    expected = []
    for given in (h, 2 * h):
        z = DoReFaActivation().quantize(given, 2)
        full, low = (F.linear(z, each, bias) for each in weights)
        expected.append((((full - low) ** 2).mean(0) / (full.var(0, correction=0) + 1e-5)).mean())
    torch.testing.assert_close(lagrangian.terms(x, torch.zeros(8, 4)).distances[0], torch.stack(expected).mean())


def test_a_norm_called_several_times() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle, self.last = (nn.Linear(4, 4) for _ in range(3))
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x: Tensor) -> Tensor:
            h = self.first(x)
            for _ in range(3):
                h = self.norm(self.middle(h)).clamp(0, 1)
            y: Tensor = self.last(h)
            return y

    torch.manual_seed(0)
    x = torch.randn(8, 4)
    net = prepare(Twice(), x, quantizer="dorefa")
    lagrangian = Lagrangian(net, F.mse_loss, [LayerConstraint("squared")])
    assert net.layers["middle"].norm_after == "norm"
    value = lagrangian(x, torch.zeros(8, 4))
    value.backward()
    assert value.isfinite()
    assert lagrangian.mean_distances().item() > 0
