import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import BlockConstraint, InputError, Lagrangian, OutputConstraint, prepare
from pdqat.models import preresnet_small
from pdqat.quantizers import SCHEMES

X = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(0))
every_scheme = pytest.mark.parametrize("quantizer", SCHEMES)


def model() -> nn.Module:
    torch.manual_seed(0)
    return preresnet_small(classes=3)


def anatomy(module: nn.Module) -> dict[str, object]:
    """Classes and attributes of every submodule: hooks by their number, tensors and children by identity."""
    parts: dict[str, object] = {}
    for name, each in module.named_modules():
        parts[name] = type(each)
        for key, value in vars(each).items():
            if key in ("_modules", "_parameters", "_buffers"):
                value = {part: id(content) for part, content in value.items()}
            parts[f"{name} {key}"] = copy.copy(value) if isinstance(value, dict | set) else value
    return parts


@every_scheme
def test_nothing_is_left_of_prepare(quantizer: str) -> None:
    plain = model()
    before, state = anatomy(plain), {key: value.clone() for key, value in plain.state_dict().items()}
    expected = plain.eval()(X)
    plain.train()
    net = prepare(plain, X, [2, 4], quantizer=quantizer)
    Lagrangian(net, F.cross_entropy, [OutputConstraint(), BlockConstraint(blocks=["stages.0.0", "stages"])])
    assert net.restore() is plain
    assert anatomy(plain) == before
    assert list(plain.state_dict()) == list(state)
    assert all(torch.equal(value, plain.state_dict()[key]) for key, value in state.items())
    assert torch.equal(plain.eval()(X), expected)


@every_scheme
@pytest.mark.parametrize("training", [True, False])
def test_baked_weights_compute_the_full_precision_view(quantizer: str, training: bool) -> None:
    plain = model()
    parameters = dict(plain.named_parameters())
    net = prepare(plain, X, quantizer=quantizer).train(training)
    full = net(X)
    baked = net.restore(bake=True)
    assert baked is plain
    assert all(plain.get_parameter(name) is parameter for name, parameter in parameters.items())
    assert torch.equal(baked(X), full)
    assert type(baked.get_submodule("stem")) is nn.Conv2d


def test_without_baking_dorefa_weights_are_the_trained_ones() -> None:
    plain = model()
    net = prepare(plain, X, quantizer="dorefa").eval()
    full = net(X)
    assert not torch.allclose(net.restore()(X), full)


class Tied(nn.Module):
    def __init__(self, ends: bool) -> None:
        super().__init__()
        self.first, self.a, self.b, self.last = (nn.Linear(4, 4, bias=False) for _ in range(4))
        self.b.weight = self.a.weight
        if ends:
            self.last.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.b(self.a(self.first(x)).relu()))
        return y


def test_a_shared_weight_is_baked_once() -> None:
    torch.manual_seed(0)
    x = torch.rand(6, 4)
    net = prepare(Tied(ends=False), x)
    full = net(x)
    assert torch.equal(net.restore(bake=True)(x), full)


def test_a_weight_shared_with_a_full_precision_layer_can_not_be_baked() -> None:
    torch.manual_seed(0)
    x = torch.rand(6, 4)
    net = prepare(Tied(ends=True), x)
    before = net(x)
    with pytest.raises(InputError, match="'last' shares the weight of a quantised layer"):
        net.restore(bake=True)
    assert torch.equal(net(x), before)
    assert type(net.restore().get_submodule("a")) is nn.Linear


def test_a_restored_model_can_be_prepared_anew() -> None:
    plain = model()
    first = prepare(plain, X, 2, quantizer="dorefa").eval()
    with first.under("2-bit"):
        expected = first(X)
    second = prepare(first.restore(), X, 2, quantizer="dorefa").eval()
    with second.under("2-bit"):
        assert torch.equal(second(X), expected)
