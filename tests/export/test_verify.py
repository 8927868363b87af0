"""What verification counts, on the reference's own codes with wrong ones planted among them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx

from deployed_networks import Own, frozen, images, trained_like
from pdqat import Network, prepare
from pdqat.export.deploy import passes
from pdqat.export.freeze import Frozen
from pdqat.export.runtimes import OUTPUT
from pdqat.export.verify import Compared, Differences, Verified, code_makers, follow, layer_agreement, verify
from pdqat.models.preresnet import preresnet_small
from pdqat.models.resnet import resnet


class Planting(fx.Interpreter):
    """The reference, with one more in the first codes of some channels."""

    def __init__(self, module: fx.GraphModule, planted: Mapping[str, tuple[int, int]]) -> None:
        super().__init__(module)
        self._planted, self._makers = planted, code_makers(module)
        self.outputs: dict[str, np.ndarray] = {}

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = super().call_module(target, args, kwargs)
        if target in self._makers:
            channel, count = self._planted.get(str(target), (0, 0))
            made[0, channel].view(-1)[:count] += 1
            self.outputs[f"codes/{target}"] = made.numpy()
        return made


class Runtime:
    """One that computes what the reference does, but for planted codes: operation to channel and how many."""

    def __init__(self, found: Frozen, planted: Mapping[str, tuple[int, int]]) -> None:
        self._module, self._planted = found.module, planted

    @torch.no_grad()
    def run(self, images: np.ndarray) -> Mapping[str, np.ndarray]:
        computing = Planting(self._module, self._planted)
        output = computing.run(torch.from_numpy(images))
        return {**computing.outputs, OUTPUT: output.numpy()}


def small(bits: str) -> Network:
    torch.manual_seed(0)
    net = prepare(preresnet_small(channels=3), images(), bits, quantizer="dorefa-int8", integer_sums=True)
    return trained_like(net, 1)


def last_integers(found: Frozen) -> str:
    """The last operation that makes codes from integers."""
    return [name for name in code_makers(found.module) if hasattr(found.module.get_submodule(name), "exact")][-1]


def verified(net: Network, found: Frozen, planted: Mapping[str, tuple[int, int]]) -> Verified:
    x = images(16)
    session = Runtime(found, planted)
    with net.under(next(iter(net.plans))), torch.no_grad():
        simulated = net(x)
    return verify("reference", session, session, found, simulated, [(x, simulated.argmax(1))])


def test_the_reference_passes_its_own_verification() -> None:
    net = small("2")
    found = verified(net, frozen(net), {})
    assert found.codes.exact.count > 10_000
    assert found.codes.exact.different == found.codes.edge.count == found.codes.real.different == 0
    assert passes(found)


def test_one_wrong_code_in_an_exact_channel_fails() -> None:
    net = small("2")
    found = frozen(net)
    wrong = verified(net, found, {last_integers(found): (3, 1)})
    assert wrong.codes.exact.different == 1
    assert not passes(replace(wrong, agreement=1.0, outputs_off=0.0))


def test_wrong_codes_of_exact_channels_fail_beside_inexact_ones() -> None:
    net = small("2")
    found = frozen(net)
    name = last_integers(found)
    exact = found.module.get_submodule(name).exact
    assert isinstance(exact, Tensor)
    exact[0] = False
    on_the_edge = follow(found.module, Runtime(found, {name: (0, 2)}), images(16)).codes
    assert (on_the_edge.exact.different, on_the_edge.edge.different) == (0, 2)
    codes = follow(found.module, Runtime(found, {name: (1, 2)}), images(16)).codes
    assert (codes.exact.different, codes.edge.different) == (2, 0)
    assert 0 < codes.edge.count < codes.exact.count


@pytest.mark.parametrize(
    ("codes", "passed"),
    [
        (Differences(), True),
        (Differences(exact=Compared(10**8, 1)), False),
        (Differences(exact=Compared(10**8, 1), edge=Compared(10**8, 0)), False),
        (Differences(exact=Compared(10**8, 0), edge=Compared(10**5, 10)), True),
        (Differences(exact=Compared(10**8, 0), edge=Compared(10**5, 11)), False),
        (Differences(real=Compared(10**4, 10)), True),
        (Differences(real=Compared(10**4, 11), edge=Compared(10**6, 0)), False),
    ],
)
def test_what_may_differ_is_a_part_of_its_own_kind(codes: Differences, passed: bool) -> None:
    assert passes(Verified("a runtime", 100, 1.0, 0.9, 0.9, codes, 0.0)) == passed


@pytest.mark.parametrize("bits", ["1", "2"])
@pytest.mark.parametrize("architecture", ["preresnet", "resnet"])
def test_layers_read_the_codes_of_the_simulated_model(architecture: str, bits: str) -> None:
    torch.manual_seed(0)
    net = small(bits)
    if architecture == "resnet":
        net = trained_like(prepare(resnet(8), images(), bits, quantizer="uniform", integer_sums=True), 1)
    plan = next(iter(net.plans.values()))
    found = layer_agreement(frozen(net), net, plan, images(120))
    assert set(found) == set(plan.low_layers)
    assert set(found.values()) == {1.0}


def test_a_layer_that_reads_other_codes_is_seen() -> None:
    torch.manual_seed(0)
    net = trained_like(prepare(Own(8, 1, 3), images(), 2, quantizer="uniform"), 0)
    plan = next(iter(net.plans.values()))
    found = frozen(net)
    operation = found.module.get_submodule(dict(found.reads)["conv1"])
    assert isinstance(operation.offset, Tensor)
    operation.offset += 10**6
    agreement = layer_agreement(found, net, plan, images(16))
    assert agreement["conv0"] == 1
    assert agreement["conv1"] < 1


def test_a_layer_that_is_called_twice_is_compared_twice() -> None:
    class Twice(Own):
        def forward(self, x: Tensor) -> Tensor:
            x = torch.relu(self.norm0(self.first(x)))
            x = self.conv0(self.norm1(self.conv0(x)).clamp(0, 1))
            y: Tensor = self.last(self.hidden1(self.hidden0(x.mean((2, 3)))))
            return y

    torch.manual_seed(0)
    net = trained_like(prepare(Twice(4, 1, 3), images(), 2, quantizer="uniform"), 0)
    found = frozen(net)
    assert [layer for layer, _ in found.reads] == ["conv0", "conv0", "hidden0", "hidden1"]
    agreement = layer_agreement(found, net, next(iter(net.plans.values())), images(16))
    assert agreement == dict.fromkeys(["conv0", "hidden0", "hidden1"], 1.0)
