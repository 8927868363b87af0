"""Layers of every kind: full precision as it was, low precision by the quantiser, and back."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from pdqat import InputError, Lagrangian, LayerConstraint, Network, prepare
from pdqat.layers.kinds import PrecisionEmbedding
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.sizes import layer_sizes
from pdqat.quantizers import UniformWeight


class SamePadding(nn.Conv2d):
    """Pads by itself and then calls torch's function, as EfficientNet's convolutions do."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        padded = F.pad(input, (1, 1, 1, 1))
        return F.conv2d(padded, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Causal(nn.Conv1d):
    """Ends in its parent's forward, and cuts off what lies behind."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(F.pad(input, (4, 0)))[..., :-2]


class Renamed(nn.Linear):
    """A subclass without a forward of its own."""


def _conv1d(width: int) -> nn.Module:
    layer: nn.Module = pytest.importorskip("transformers.pytorch_utils").Conv1D(width, width)
    return layer


MIDDLES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1), (5, 4, 7)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), (5, 4, 3, 3)),
    "ConvTranspose2d in groups": (lambda: nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False), (5, 4, 3, 3)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(4, 2, 2, dilation=2), (3, 4, 2, 2, 2)),
    "Conv1D": (lambda: _conv1d(4), (5, 3, 4)),
    "a padding of its own": (lambda: SamePadding(4, 6, 3, stride=2), (5, 4, 6, 6)),
    "ends in its parent's": (lambda: Causal(4, 6, 3), (5, 4, 9)),
    "renamed": (lambda: Renamed(4, 6), (5, 4)),
    "weight norm": (lambda: parametrizations.weight_norm(nn.Conv2d(4, 6, 3)), (5, 4, 4, 4)),
    "spectral norm": (lambda: parametrizations.spectral_norm(nn.Linear(4, 6)), (5, 4)),
}
every_kind = pytest.mark.parametrize("kind", MIDDLES)


class Middle(nn.Module):
    """Some layer between two that stay in full precision."""

    def __init__(self, middle: nn.Module, channels: int = 4) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Conv1d(channels, channels, 1), middle, nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        dims = x.dim()
        x = self.first(x.reshape(len(x), 4, -1) if dims != 3 or x.shape[1] == 4 else x.transpose(1, 2)).reshape(x.shape)
        y: Tensor = self.last(torch.tanh(self.middle(x)).flatten(1).sum(1, keepdim=True))
        return y


def made(kind: str, quantizer: str = "uniform-channel") -> tuple[Network, Middle, Tensor]:
    """A network, the plain model that it was, and an example."""
    torch.manual_seed(0)
    build, shape = MIDDLES[kind]
    model, x = Middle(build()).eval(), torch.randn(shape)
    plain = copy.deepcopy(model)
    return prepare(model, x, 3, quantizer=quantizer).eval(), plain, x


@every_kind
def test_full_precision_is_as_it_was_and_restore_gives_it_back(kind: str) -> None:
    net, plain, x = made(kind)
    assert list(net.layers) == ["middle"]
    torch.testing.assert_close(net(x), plain(x), rtol=0, atol=0)
    back = net.restore()
    assert [type(module) for module in back.modules()] == [type(module) for module in plain.modules()]
    assert back.state_dict().keys() == plain.state_dict().keys()
    torch.testing.assert_close(back(x), plain(x), rtol=0, atol=0)


@every_kind
@torch.no_grad()
def test_low_precision_is_the_plain_layer_with_rounded_numbers(kind: str) -> None:
    """The low-precision output, by the plain model with the rounded weight written into it."""
    net, plain, x = made(kind)
    layer = net.layers["middle"]
    view = layer.views["3-bit"]
    assert isinstance(view, LayerQuantizers)
    weight = layer.from_rows(UniformWeight(per_channel=True).quantize(layer.rows, 3))
    with net.under("3-bit"):
        low = net(x)
    written = _with_weight(plain, weight)
    _round_at_the_operation(written, lambda given: view.activation.quantize(given, 3))
    torch.testing.assert_close(low, written(x), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(net.restore(plan="3-bit")(x), low, rtol=1e-6, atol=1e-6)


def _with_weight(plain: Middle, weight: Tensor) -> Middle:
    """A copy whose middle has this weight, whatever computed it before."""
    model = Middle(nn.Identity()).eval()
    model.first, model.last = plain.first, plain.last
    kind = type(plain.middle)
    kind = kind.__mro__[1] if hasattr(plain.middle, "parametrizations") else kind
    middle = kind.__new__(kind)
    middle.__dict__ = {key: value for key, value in plain.middle.__dict__.items() if key != "_forward_pre_hooks"}
    middle._forward_pre_hooks = type(plain.middle._forward_pre_hooks)()
    middle._parameters = {"weight": nn.Parameter(weight), "bias": plain.middle._parameters.get("bias")}
    middle._modules = {}
    middle.__dict__.pop("weight", None)
    model.middle = middle
    return model


def _round_at_the_operation(model: Middle, rounded: Callable[[Tensor], Tensor]) -> None:
    """Padding with zeros before or after rounding is the same, so the layer's own input can be rounded."""
    model.middle.register_forward_pre_hook(lambda _, args: (rounded(args[0]),))


@every_kind
def test_a_gradient_reaches_the_weight_through_the_full_precision_side(kind: str) -> None:
    net, _, x = made(kind)
    problem = Lagrangian(net, F.mse_loss, [LayerConstraint("relative", 0.0)])
    problem.duals.multipliers.fill_(1.0)
    problem(x, torch.zeros(len(x), 1)).backward()
    parameters = dict(net.model.middle.named_parameters())  # type: ignore[union-attr]
    assert all(each.grad is not None and bool(each.grad.isfinite().all()) for each in parameters.values())
    assert any(bool(each.grad.any()) for each in parameters.values() if each.grad is not None)


def test_rows_of_a_transposed_convolution_are_its_output_channels() -> None:
    layer = made("ConvTranspose2d in groups")[0].layers["middle"]
    assert layer.weight.shape == (4, 3, 3, 3)
    assert layer.rows.shape == (6, 2, 3, 3)
    assert layer.channels == 6
    torch.testing.assert_close(layer.from_rows(layer.rows), layer.weight, rtol=0, atol=0)
    inputs_of_group_two, third_output_of_it = layer.weight[2:, 2], layer.rows[5]
    assert torch.equal(inputs_of_group_two, third_output_of_it)


def test_operations_are_counted_where_they_happen() -> None:
    transposed = made("ConvTranspose2d")[0]
    assert layer_sizes(transposed)["middle"].operations == 9 * 4 * 6 * 9, "every input position meets the whole weight"
    padded = made("a padding of its own")[0]
    assert layer_sizes(padded)["middle"].operations == 9 * 4 * 6 * 9


def test_an_output_size_that_needs_another_padding_is_refused() -> None:
    class Sized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1)
            self.up = nn.ConvTranspose2d(2, 2, 2, stride=2)
            self.wanted = [4, 4]

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.last(self.up(self.first(x), output_size=self.wanted))
            return y

    model, x = Sized(), torch.rand(2, 2, 2, 2)
    net = prepare(model, x)
    assert list(net.layers) == ["up"]
    assert net(x).shape == (2, 2, 4, 4)
    model.wanted = [5, 5]
    with pytest.raises(InputError, match=r"up is called with output_size=\(5, 5\), .* \(1, 1\); give the layer"):
        net(x)


class Words(nn.Module):
    def __init__(self, **options: float) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 6, **options)  # type: ignore[arg-type]
        self.hidden, self.head = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, words: Tensor) -> Tensor:
        y: Tensor = self.head(torch.relu(self.hidden(self.table(words).mean(1))))
        return y


def test_an_embedding_is_quantised_by_its_weights_alone() -> None:
    words = torch.randint(20, (8, 5), generator=torch.Generator().manual_seed(0))
    assert prepare(Words(), words).left_alone["table"] == "first layer: full precision unless a rule names it"
    net = prepare(Words(), words, 4, layers={"table": 2})
    assert {layer: str(precision) for layer, precision in net.plans["4-bit"].precisions.items()} == {
        "table": "w2",
        "hidden": "4",
    }
    table = net.layers["table"]
    assert isinstance(table, PrecisionEmbedding)
    with torch.no_grad(), net.under("4-bit"):
        torch.testing.assert_close(table(words), UniformWeight().quantize(table.weight, 2)[words], rtol=0, atol=0)
    assert layer_sizes(net)["table"].operations == 0
    problem = Lagrangian(net, F.cross_entropy)
    assert problem.under_plan(net.plans["4-bit"]).net.plans["4-bit"]["table"].activation is None


def test_an_embedding_that_changes_its_weights_is_left_alone() -> None:
    net = prepare(Words(max_norm=1.0), torch.randint(20, (8, 5)), layers={"hidden": 2})
    assert net.left_alone["table"] == "Embedding with max_norm changes its weights in every forward"


def test_functions_on_own_parameters_and_recurrent_layers_are_named() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix = nn.Parameter(torch.rand(4, 4))

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.matrix)

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle, self.last = (nn.Linear(4, 4) for _ in range(3))
            self.bare, self.recurrent = Bare(), nn.GRU(4, 4, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.last(self.middle(self.recurrent(self.bare(self.first(x)))[0]))
            return y

    net = prepare(Mixed(), torch.rand(3, 5, 4))
    assert list(net.layers) == ["middle"]
    assert net.left_alone["bare"].startswith("F.linear on its own parameters is not a layer; make it nn.Linear")
    assert net.left_alone["recurrent"].startswith("GRU is recurrent")
    assert "nn.Linear" in net.left_alone["recurrent"]


def test_torchs_old_weight_norm_is_left_alone() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    with pytest.warns(FutureWarning, match="deprecated"):
        torch.nn.utils.weight_norm(model[1])
    net = prepare(model, torch.rand(3, 4))
    assert list(net.layers) == ["2"]
    assert net.left_alone["1"].endswith("use torch.nn.utils.parametrizations")


def test_a_copy_of_a_network_with_computed_weights_is_independent() -> None:
    net, plain, x = made("weight norm")
    low = copy.deepcopy(net).restore(plan="3-bit")
    assert not hasattr(low.middle, "parametrizations")
    torch.testing.assert_close(net.restore()(x), plain(x), rtol=0, atol=0)


class Own(nn.Conv2d):
    """What has a forward of its own below."""

    def __init__(self) -> None:
        super().__init__(4, 4, 3)


class Standardised(Own):
    """Computes with a weight that it makes of its own."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        weight = (self.weight - self.weight.mean()) / self.weight.std()
        return F.conv2d(input, weight, self.bias, self.stride, self.padding)


class WithoutChange(Own):
    """Adds to its weight what is 0 before training, as adapters do."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return F.conv2d(input, self.weight + torch.zeros_like(self.weight), self.bias)


class Adapted(Own):
    """Has a second weight beside its own."""

    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Parameter(torch.rand_like(self.weight))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return super().forward(input) + F.conv2d(input, self.other, self.bias)


class WithChild(Own):
    """Has another layer beside its own operation."""

    def __init__(self) -> None:
        super().__init__()
        self.beside = nn.Conv2d(4, 4, 3)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        both: Tensor = super().forward(input) + self.beside(input)
        return both


@pytest.mark.parametrize("kind", [Standardised, WithoutChange, Adapted, WithChild])
def test_a_forward_that_is_more_than_one_call_on_the_own_weight_is_left_alone(kind: Callable[[], nn.Module]) -> None:
    model = nn.Sequential(nn.Conv2d(2, 4, 3), kind(), nn.ReLU(), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1)).eval()
    x = torch.rand(4, 2, 8, 8)
    expected = model(x)
    net = prepare(model, x, bits=4)
    assert "on its weight and bias" in net.left_alone["1"]
    assert torch.equal(net(x), expected)


def test_an_own_forward_with_a_computed_weight_is_quantised() -> None:
    plain = nn.Sequential(
        nn.Conv2d(2, 4, 3), parametrizations.weight_norm(SamePadding(4, 4, 3)), nn.ReLU(), nn.Conv2d(4, 2, 1)
    )
    x = torch.rand(4, 2, 8, 8)
    expected = plain(x)
    net = prepare(plain, x, bits=4)
    assert list(net.layers) == ["1"]
    assert torch.equal(net(x), expected)


def test_looking_at_a_spectral_norm_does_not_change_it() -> None:
    model = nn.Sequential(*(parametrizations.spectral_norm(nn.Linear(6, 6)) for _ in range(3))).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    net = prepare(model, torch.rand(4, 6), bits=4)
    assert net.coverage.of_operations == 1 / 3
    after = net.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    weight = net.eval().layers["1"].low_weight(net.plans["4-bit"])
    low = net.train().restore(plan="4-bit").get_submodule("1")
    assert torch.equal(low.weight, weight)  # type: ignore[arg-type]
