"""Sums of residual networks, and means of images, on whole numbers of one step."""

import copy
from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

from pdqat import Network, prepare
from pdqat.layers.interface import Interface
from pdqat.layers.state import Gradient
from pdqat.layers.summand import Summand
from pdqat.layers.trace import trace
from pdqat.layers.transfer import plain_state
from pdqat.models.preresnet import preresnet, preresnet8, preresnet_small
from pdqat.models.resnet import resnet
from pdqat.quantizers import PowerOfTwo


def example(channels: int = 3) -> Tensor:
    return torch.randn(4, channels, 8, 8, generator=torch.Generator().manual_seed(1))


def streams(model: nn.Module, inputs: Tensor) -> set[frozenset[str]]:
    layers = {name: each for name, each in model.named_modules() if isinstance(each, nn.Conv1d | nn.Conv2d | nn.Linear)}
    norms = {name: each for name, each in model.named_modules() if isinstance(each, nn.BatchNorm2d)}
    return set(trace(model, layers, norms, Interface(), inputs).streams)


def test_a_stage_of_a_pre_activation_network_is_one_stream() -> None:
    assert streams(preresnet(14), example()) == {
        frozenset({"stem", "stages.0.0.conv1", "stages.0.1.conv1"}),
        frozenset({"stages.1.0.shortcut.norm", "stages.1.0.conv1", "stages.1.1.conv1"}),
        frozenset({"stages.2.0.shortcut.norm", "stages.2.0.conv1", "stages.2.1.conv1"}),
    }


def test_a_stream_goes_through_relu() -> None:
    assert streams(resnet(14), example()) == {
        frozenset({"norm", "stages.0.0.norm1", "stages.0.1.norm1"}),
        frozenset({"stages.1.0.shortcut.norm", "stages.1.0.norm1", "stages.1.1.norm1"}),
        frozenset({"stages.2.0.shortcut.norm", "stages.2.0.norm1", "stages.2.1.norm1"}),
    }


class Sum(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.conv0, self.conv1, self.conv2 = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))
        self.offset = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        a = self.conv0(x)
        b = self.conv1(a)
        if self.kind == "input":
            b = b + x
        elif self.kind == "scaled":
            b = torch.add(b, a, alpha=0.5)
        elif self.kind == "parameter":
            b = b + self.offset
        elif self.kind == "mean":
            b = b + nn.functional.avg_pool2d(a, 3, 1, 1)
        elif self.kind == "tanh":
            b = b + torch.tanh(a)
        elif self.kind == "clip at 0.3":
            b = b + a.clamp(0, 0.3)
        elif self.kind == "clip at 6":
            b = b + nn.functional.relu6(a)
        elif self.kind == "pooled":
            b = b + nn.functional.max_pool2d(a, 3, 1, 1)
        elif self.kind == "clipped":
            b = b + nn.functional.hardtanh(a, 0, 1).relu()
        y: Tensor = self.conv2(b)
        return y


@pytest.mark.parametrize("kind", ["input", "scaled", "parameter", "mean", "tanh", "clip at 0.3"])
def test_sums_with_a_term_that_is_not_on_the_grid_are_left_alone(kind: str) -> None:
    assert streams(Sum(kind), example()) == set()


@pytest.mark.parametrize("kind", ["pooled", "clipped", "clip at 6"])
def test_functions_that_keep_multiples_are_looked_through(kind: str) -> None:
    assert streams(Sum(kind), example()) == {frozenset({"conv0", "conv1"})}


class Mean(nn.Module):
    """Over some dimensions."""

    def __init__(self, *dims: int, keepdim: bool = False) -> None:
        super().__init__()
        self.dims, self.keepdim = dims, keepdim

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(self.dims, self.keepdim)


class ByChannel(nn.Module):
    """A clip whose limits are a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(min=torch.ones(3, 1, 1))


MEANS: dict[str, tuple[dict[str, nn.Module], str | None]] = {
    "norm and ReLU": ({"norm": nn.BatchNorm2d(3), "relu": nn.ReLU(), "mean": Mean(2, 3)}, "norm"),
    "norm and ReLU6": ({"norm": nn.BatchNorm2d(3), "relu": nn.ReLU6(), "mean": Mean(-1, -2, keepdim=True)}, "norm"),
    "ReLU": ({"relu": nn.ReLU(), "mean": Mean(3, 2)}, "conv"),
    "the layer itself": ({"mean": nn.AdaptiveAvgPool2d(1)}, "conv"),
    "a norm, which may be applied behind the mean": ({"norm": nn.BatchNorm2d(3), "mean": Mean(2, 3)}, "conv"),
    "a function that leaves the grid": ({"norm": nn.BatchNorm2d(3), "tanh": nn.Tanh(), "mean": Mean(2, 3)}, None),
    "a clip that leaves the grid": ({"clip": nn.Hardtanh(0, 0.3), "mean": Mean(2, 3)}, None),
    "a clip at a number for each channel": ({"clip": ByChannel(), "mean": Mean(2, 3)}, None),
    "rows alone": ({"mean": Mean(2)}, None),
    "channels too": ({"mean": Mean(1, 2, 3, keepdim=True)}, None),
    "an average of parts": ({"mean": nn.AvgPool2d(2)}, None),
}


@pytest.mark.parametrize("case", MEANS)
def test_what_a_mean_of_an_image_adds_up_is_a_stream(case: str) -> None:
    parts, stream = MEANS[case]
    model = nn.Sequential(
        OrderedDict({"conv": nn.Conv2d(3, 3, 3), **parts, "flat": nn.Flatten(), "head": nn.LazyLinear(2)})
    )
    model(example())  # gives the lazy layer its size
    assert streams(model, example()) == (set() if stream is None else {frozenset({stream})})


class AlsoRead(nn.Module):
    """A mean whose terms something else reads too."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), nn.Linear(3, 2)
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.conv(x))
        match self.how:
            case "squeeze and excitation":
                y = y * y.relu().mean((2, 3), keepdim=True).sigmoid()
                y = y.amax((2, 3))
            case "a layer norm by hand":
                y = (y - y.mean((-1, -2), keepdim=True)).amax((2, 3))
            case "a mean over everything":
                y = (y * y.mean(dim=None)).amax((2, 3))
        z: Tensor = self.head(y)
        return z


@pytest.mark.parametrize("how", ["squeeze and excitation", "a layer norm by hand", "a mean over everything"])
def test_a_mean_of_what_something_else_reads_too_is_left_alone(how: str) -> None:
    assert streams(AlsoRead(how), example()) == set()


def test_a_norm_that_an_addition_reads_too_is_not_looked_through() -> None:
    class Both(AlsoRead):
        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.norm(self.conv(x))
            z: Tensor = self.head(y.mean((2, 3))) + self.head((y + y).amax((2, 3)))
            return z

    assert streams(Both(""), example()) == {frozenset({"norm"}), frozenset({"head"})}


def test_a_mean_in_one_dimension_counts_too() -> None:
    model = nn.Sequential(nn.Conv1d(3, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(3, 2))
    assert streams(model, example()[:, :, 0]) == {frozenset({"0"})}


def test_a_mean_of_a_stream_adds_nothing_to_it() -> None:
    linear, bent = preresnet(8), preresnet8()
    assert streams(bent, example()) == {*streams(linear, example()), frozenset({"norm"})}


def test_a_last_addition_counts_too() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv0, self.conv1 = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)

        def forward(self, x: Tensor) -> Tensor:
            a = self.conv0(x)
            y: Tensor = self.conv1(a) + a
            return y

    assert streams(Last(), example()) == {frozenset({"conv0", "conv1"})}


def sums(net: Network, name: str, plan: str = "2-bit") -> PowerOfTwo:
    """A summand's quantiser."""
    module = net.model.get_submodule(name)
    assert isinstance(module, Summand)
    quantizer = module.sums[plan]
    assert isinstance(quantizer, PowerOfTwo)
    return quantizer


def prepared(integer_sums: bool = True) -> Network:
    torch.manual_seed(0)
    return prepare(preresnet_small(channels=3), example(), [2, 4], integer_sums=integer_sums)


def sums_of(net: Network, plan: str) -> list[Tensor]:
    """What enters the norms behind additions."""
    entering: list[Tensor] = []
    behind = [net.model.get_submodule(name) for name in ("stages.1.0.norm0", "stages.2.0.norm0", "norm")]
    hooks = [each.register_forward_pre_hook(lambda _, args: entering.append(args[0])) for each in behind]
    with torch.no_grad(), net.under(plan):
        net(example())
    for hook in hooks:
        hook.remove()
    return entering


def test_sums_are_whole_numbers_of_one_power_of_two() -> None:
    net = prepared().eval()
    for plan in net.plans:
        names = ("stem", "stages.1.0.conv1", "stages.2.0.conv1")
        for total, name in zip(sums_of(net, plan), names, strict=True):
            quantizer = sums(net, name, plan)
            step = quantizer._step(8)
            assert torch.log2(step) == torch.log2(step).round()
            whole = total / step
            assert whole.equal(whole.round())
            assert 64 < whole.abs().max() <= 2 * 127
    assert any((total / 2**-8).frac().any() for total in sums_of(prepared(False).eval(), "2-bit"))


def test_summands_of_a_stream_share_their_quantiser_and_plans_do_not() -> None:
    net = prepared()
    modules = dict(net.model.named_modules())
    assert sums(net, "stem") is sums(net, "stages.0.0.conv1")
    assert sums(net, "stem") is not sums(net, "stem", "4-bit")
    assert not [name for name, each in modules.items() if isinstance(each, Summand) and each.sums and "conv0" in name]


def moves(net: Network, parameter: str) -> bool:
    gradient = net.model.get_parameter(parameter).grad
    return gradient is not None and bool(gradient.any())


def test_full_precision_is_as_it_was() -> None:
    with torch.no_grad():
        assert prepared().eval()(example()).equal(prepared(False).eval()(example()))


@pytest.mark.parametrize(("gradient", "reaches"), [(Gradient.EXACT, False), (Gradient.STRAIGHT_THROUGH, True)])
def test_rounding_passes_a_gradient_only_straight_through(gradient: Gradient, reaches: bool) -> None:
    net = prepared()
    with net.under("2-bit", gradient):
        net(example()).square().sum().backward()
    assert moves(net, "stages.2.0.conv1.weight") is reaches


def test_norm_gradients_leave_weights_before_a_rounded_sum_alone() -> None:
    net = prepared()
    with net.under("2-bit", Gradient.NORMS):
        net(example()).square().sum().backward()
    assert not moves(net, "stages.2.0.conv1.weight")
    assert moves(net, "stages.2.0.norm1.views.2-bit.weight")
    assert moves(net, "head.weight")


class InPlace(nn.Module):
    """What is added is clipped in place, as in torchvision, or not."""

    def __init__(self, inplace: bool) -> None:
        super().__init__()
        self.stem, self.conv0, self.conv1 = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))
        self.norm0, self.norm1 = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        self.relu, self.inplace = nn.ReLU(inplace), inplace

    def forward(self, x: Tensor) -> Tensor:
        h = self.relu(self.norm0(self.stem(x)))
        y: Tensor = self.norm1(self.conv0(h))
        if self.inplace:
            y += h
        else:
            y = y + h
        result: Tensor = self.conv1(self.relu(y))
        return result


@pytest.mark.parametrize("gradient", list(Gradient))
def test_what_follows_may_work_in_place(gradient: Gradient) -> None:
    values: list[list[Tensor]] = []
    for inplace in (False, True):
        torch.manual_seed(0)
        net = prepare(InPlace(inplace), example(), layers={"conv1": 2}, integer_sums=True)
        assert sums(net, "norm0") is sums(net, "norm1")
        with net.under("2-bit", gradient):
            output = net(example())
        values.append([output, *torch.autograd.grad(output.sum(), list(net.parameters()), materialize_grads=True)])
    torch.testing.assert_close(values[1], values[0], rtol=0, atol=0)


def test_training_moves_the_step_and_state_dict_keeps_it() -> None:
    net = prepared()
    before = sums(net, "stem").largest.clone()
    with torch.no_grad(), net.under("2-bit"):
        net(10 * example())
    moved = sums(net, "stages.0.0.conv1").largest
    assert moved > 5 * before
    again = prepared()
    again.load_state_dict(net.state_dict())
    assert sums(again, "stem").largest.equal(moved)
    twin = copy.deepcopy(net)
    assert sums(twin, "stem") is sums(twin, "stages.0.0.conv1")


def test_a_state_of_plans_without_steps_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"sums\.2-bit\.largest is not in the state, which was trained without"):
        prepared().load_state_dict(prepared(False).state_dict())
    state = {
        key: value for key, value in prepared().state_dict().items() if not key.startswith("stages.0.0.conv1.sums")
    }
    with pytest.raises(RuntimeError, match=r"stages\.0\.0\.conv1\.sums\.2-bit\.largest is not in the state"):
        prepared().load_state_dict(state)


def test_plain_weights_load_and_come_back() -> None:
    plain = preresnet_small(channels=3)
    net = prepared()
    net.load_state_dict(plain.state_dict())
    assert plain_state(net.state_dict()).keys() == plain.state_dict().keys()
    restored = net.restore()
    assert restored.state_dict().keys() == plain.state_dict().keys()
    assert not any(hasattr(each, "sums") for each in restored.modules())
