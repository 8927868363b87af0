"""restore(plan=...): the low-precision model as plain modules."""

import copy
import io

import pytest
import torch
from torch import Tensor, nn

from networks_as_trained import LAYERS, Signals, as_trained, signals, state_of
from pdqat import BitPlan, InputError, Lagrangian, Network, Precision, prepare
from pdqat.layers.rounding import Rounding
from pdqat.models import preresnet_small
from pdqat.models.resnet import resnet
from pdqat.quantizers import SCHEMES

X, _ = signals()
IMAGES = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
PLAIN = {nn.Conv1d, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d, nn.Linear, nn.ReLU, Signals, Rounding}
every_scheme = pytest.mark.parametrize("quantizer", SCHEMES)


def prepared(quantizer: str = "dorefa", seed: int = 0, **options: object) -> Network:
    torch.manual_seed(seed)
    plans = [2, BitPlan("mixed", {"conv0": Precision(1, 4), "conv1": Precision(3, None), "hidden": Precision(None, 5)})]
    net = prepare(Signals(), X, plans, quantizer=quantizer, **options)  # type: ignore[arg-type]
    return as_trained(net, seed + 1).eval()


@torch.no_grad()
def low_output(net: Network, plan: str, inputs: Tensor = X) -> Tensor:
    with net.under(plan):
        output: Tensor = net(inputs)
    return output


@every_scheme
@pytest.mark.parametrize("integer_sums", [False, True])
@pytest.mark.parametrize("plan", ["2-bit", "mixed"])
def test_it_computes_what_the_network_computes_under_the_plan(quantizer: str, integer_sums: bool, plan: str) -> None:
    net = prepared(quantizer, integer_sums=integer_sums)
    expected, full, model = low_output(net, plan), net(X), net.model
    low = net.restore(plan=plan)
    assert low is model
    assert torch.equal(low(X), expected)
    assert not torch.allclose(low(X), full)
    assert {type(module) for module in low.modules()} - {
        type(part) for module in low.modules() if isinstance(module, Rounding) for part in module.quantizer.modules()
    } <= PLAIN


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["pre-activation", "post-activation"])
def test_residual_networks_of_images(kind: str, tied: bool) -> None:
    torch.manual_seed(0)
    model = preresnet_small(channels=3) if kind == "pre-activation" else resnet(8)
    net = as_trained(prepare(model, IMAGES, 2, integer_sums=True, tied_norms=tied)).eval()
    expected = low_output(net, "2-bit", IMAGES)
    low = net.restore(plan=net.plans["2-bit"])
    assert torch.equal(low(IMAGES), expected)
    assert sum(name.endswith("sum_quantizer") for name, _ in low.named_modules()) > 2


@every_scheme
def test_parameters_stay_and_hold_as_many_values_as_the_bits(quantizer: str) -> None:
    net = prepared(quantizer)
    parameters = dict(net.model.named_parameters())
    expected = {name: layer.low_weight(net.plans["2-bit"]).detach() for name, layer in net.layers.items()}
    untouched = {name: net.model.get_parameter(name).clone() for name in ("stem.weight", "head.weight", "hidden.bias")}
    low = net.restore(plan="2-bit")
    for name, weight in expected.items():
        assert low.get_parameter(f"{name}.weight") is parameters[f"{name}.weight"]
        assert torch.equal(low.state_dict()[f"{name}.weight"], weight)
        channels = weight if quantizer in ("uniform-channel", "normal", "normal-bytes") else [weight]
        assert max(len(channel.unique()) for channel in channels) <= 4
    assert all(torch.equal(low.get_parameter(name), value) for name, value in untouched.items())


def test_norms_are_the_plans_own() -> None:
    net = prepared(tied_norms=False)
    views = {
        f"norm0.{key}": value.clone()
        for key, value in net.model.get_submodule("norm0.views.2-bit").state_dict().items()
    }
    assert not torch.equal(views["norm0.weight"], net.state_dict()["norm0.weight"])
    state = net.restore(plan="2-bit").state_dict()
    assert all(torch.equal(state[key], value) for key, value in views.items())


def test_what_is_rounded_stands_in_the_model() -> None:
    low = prepared(integer_sums=True).restore(plan="mixed")
    roundings = {name: module.bits for name, module in low.named_modules() if isinstance(module, Rounding)}
    assert roundings == {
        "conv0.input_quantizer": 4,
        "hidden.input_quantizer": 5,
        "norm.sum_quantizer": 8,
        "norm1.sum_quantizer": 8,
        "conv2.sum_quantizer": 8,
    }
    assert "4 bits" in repr(low)
    assert not low.get_submodule("conv0.input_quantizer").training


@every_scheme
def test_it_goes_through_a_file_and_copies(quantizer: str) -> None:
    low = prepared(quantizer, integer_sums=True).restore(plan="2-bit")
    expected = low(X)
    file = io.BytesIO()
    torch.save(low.state_dict(), file)
    file.seek(0)
    other = prepared(quantizer, seed=5, integer_sums=True).restore(plan="2-bit")
    assert not torch.equal(other(X), expected)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(X), expected)
    assert torch.equal(copy.deepcopy(low)(X), expected)


def test_it_trains_as_a_plain_module_and_leaves_its_quantisers() -> None:
    """Rounding has gradient zero, so only what lies behind the last one feels anything."""
    low = prepared("uniform").restore(plan="2-bit").train()
    before = state_of(low)
    low(X).square().sum().backward()
    assert low.get_parameter("head.weight").grad is not None
    after = low.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items() if "quantizer" in key)


def test_hooks_of_the_user_see_what_they_saw_in_training() -> None:
    torch.manual_seed(0)
    model = Signals()
    seen: list[Tensor] = []
    model.norm1.register_forward_hook(lambda *given: seen.append(given[2].clone()))
    net = as_trained(prepare(model, X, 2, integer_sums=True)).eval()
    seen.clear()
    low_output(net, "2-bit")
    net.restore(plan="2-bit")(X)
    assert torch.equal(*seen)


def test_layers_called_by_keyword_are_rounded_too() -> None:
    class Keyword(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle, self.last = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.last(self.middle(input=self.first(x)))
            return y

    torch.manual_seed(0)
    x = torch.rand(6, 4)
    net = prepare(Keyword(), x)
    expected = low_output(net, "2-bit", x)
    assert torch.equal(net.restore(plan="2-bit")(x), expected)


class Sharing(nn.Module):
    """Layers a and b share a weight; `with_last`, the last layer does too."""

    def __init__(self, with_last: bool = False) -> None:
        super().__init__()
        self.first, self.a, self.b, self.last = (nn.Linear(4, 4, bias=False) for _ in range(4))
        self.b.weight = self.a.weight
        if with_last:
            self.last.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.b(self.a(self.first(x)).relu()))
        return y


def test_a_shared_weight_is_quantised_once() -> None:
    torch.manual_seed(0)
    x = torch.rand(6, 4)
    net = prepare(Sharing(), x)
    expected = low_output(net, "2-bit", x)
    low = net.restore(plan="2-bit")
    assert torch.equal(low(x), expected)
    assert low.get_parameter("a.weight") is low.get_submodule("b").weight


@pytest.mark.parametrize(
    ("with_last", "plan", "message"),
    [
        (True, 2, "'last' shares the weight of a quantised layer, which can't be quantised for both"),
        (False, BitPlan("2-bit", {"a": Precision(2, 2), "b": Precision(4, 2)}), "'b' shares its weight with a layer"),
    ],
)
def test_a_weight_that_would_have_to_be_two_things_is_refused(with_last: bool, plan: BitPlan, message: str) -> None:
    torch.manual_seed(0)
    x = torch.rand(6, 4)
    net = prepare(Sharing(with_last), x, plan)
    before, expected = state_of(net), low_output(net, "2-bit", x)
    with pytest.raises(InputError, match=message):
        net.restore(plan="2-bit")
    assert torch.equal(low_output(net, "2-bit", x), expected), "the network is as it was"
    assert state_of(net).keys() == before.keys()


def test_what_can_not_be_asked_for() -> None:
    net = prepared()
    with pytest.raises(InputError, match="the network has no plan '8-bit'; it was prepared with 2-bit, mixed"):
        net.restore(plan="8-bit")
    with pytest.raises(InputError, match="either bakes full precision or gives a plan's low precision"):
        net.restore(bake=True, plan="2-bit")
    assert list(net.layers) == LAYERS


def test_it_is_not_prepared_again() -> None:
    low = prepared().restore(plan="2-bit")
    with pytest.raises(InputError, match="the model is in low precision already"):
        prepare(low, X)


def test_no_hook_of_training_is_left() -> None:
    net = prepared(integer_sums=True)
    Lagrangian(net, nn.functional.cross_entropy)
    low = net.restore(plan="mixed")
    hooked = {name for name, module in low.named_modules() if module._forward_hooks or module._forward_pre_hooks}
    assert hooked == {"conv0", "conv2", "hidden", "norm", "norm1"}
