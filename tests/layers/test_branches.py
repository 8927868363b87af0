"""Residual branches: which layers can be dropped, and that a network without them is what it is said to be."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pdqat import BitPlan, InputError, Lagrangian, LayerConstraint, Network, OutputConstraint, prepare
from pdqat.layers import Gradient
from pdqat.layers.transfer import with_plan
from pdqat.models import build
from pdqat.precision import DROPPED, Precision

KINDS = ("plain", "norm", "scaled", "attention")
WIDTH = 6


class Block(nn.Module):
    """A branch of one of the kinds, beside a skip connection; `without` it the block is the connection alone."""

    def __init__(self, kind: str, without: bool) -> None:
        super().__init__()
        self.kind, self.without = kind, without
        self.up, self.gate, self.down = nn.Linear(WIDTH, 8), nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH)
        self.inner, self.norm = nn.BatchNorm1d(8), nn.BatchNorm1d(WIDTH)
        self.scale = nn.Parameter(torch.full((WIDTH,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        if self.without:
            return x
        h = self.up(x)
        h = h.softmax(-1) * self.gate(x) if self.kind == "attention" else torch.relu(self.inner(h))
        h = self.down(h)
        if self.kind == "norm":
            h = self.norm(h)
        y: Tensor = x + (h * self.scale if self.kind == "scaled" else h)
        return y


class Residual(nn.Module):
    def __init__(self, kinds: list[str], without: set[int]) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 3)
        self.blocks = nn.ModuleList(Block(kind, number in without) for number, kind in enumerate(kinds))
        self.middle = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(torch.relu(self.middle(x)))
        return logits


def residual(kinds: list[str], without: set[int]) -> Residual:
    torch.manual_seed(0)
    return Residual(kinds, without)


def dropping(kinds: list[str], without: set[int], example: Tensor) -> Network:
    net = prepare(residual(kinds, set()), example, bits=3)
    return with_plan(net, BitPlan("mixed", {f"blocks.{number}.down": DROPPED for number in without}))


blocks = st.lists(st.sampled_from(KINDS), min_size=1, max_size=3)


@settings(max_examples=25)
@given(blocks, st.sets(st.integers(0, 2)), st.sampled_from(["eval", "train"]))
def test_without_a_layer_the_network_is_the_one_without_that_branch(
    kinds: list[str], chosen: set[int], mode: str
) -> None:
    without = {number for number in chosen if number < len(kinds)}
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
    rules = {f"blocks.{number}.down": 0 for number in without}
    net = prepare(residual(kinds, set()), x, bits=3, layers=rules)
    removed = prepare(residual(kinds, without), x, bits=3)
    outputs, gradients = [], []
    for each in (net, removed):
        each.train(mode == "train")
        with each.under("3-bit", Gradient.STRAIGHT_THROUGH):
            output = each(x)
        output.square().sum().backward()
        outputs.append(output)
        gradients.append({name: it.grad for name, it in each.named_parameters() if it.grad is not None})
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=0)
    for name, gradient in gradients[0].items():
        wanted = gradients[1].get(name, torch.zeros_like(gradient))
        torch.testing.assert_close(gradient, wanted, rtol=0, atol=0)
    assert gradients[1].keys() <= gradients[0].keys()
    gone = {f"blocks.{number}.{part}" for number in without for part in ("up", "gate", "down")} & net.layers.keys()
    assert set(net.plans["3-bit"].dropped_layers) == gone


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_that_is_given_back_computes_the_same(kind: str) -> None:
    x = torch.randn(16, 4)
    net = dropping([kind, "norm"], {0}, x).eval()
    with torch.no_grad(), net.under("mixed"):
        wanted = net(x)
    plain = copy.deepcopy(net).restore(plan="mixed").eval()
    with torch.no_grad():
        torch.testing.assert_close(plain(x), wanted, rtol=0, atol=1e-6)
    with torch.no_grad():
        full = residual([kind, "norm"], set()).eval()(x)
        torch.testing.assert_close(net(x), full)
        torch.testing.assert_close(net.restore()(x), full)


@pytest.mark.parametrize("distance", ["relative", "squared", "absolute"])
def test_dropped_layers_have_no_constraint(distance: str) -> None:
    x, y = torch.randn(16, 4), torch.arange(16) % 3
    constraints = [OutputConstraint("kl"), LayerConstraint(distance)]
    problem = Lagrangian(prepare(residual(["plain", "norm"], set()), x, bits=3), F.cross_entropy, constraints)
    fewer = problem.under_plan(BitPlan("mixed", {"blocks.1.down": DROPPED}))
    assert [bound.where for bound in fewer.bounds if bound.kind == "layer"] == [
        "blocks.0.up",
        "blocks.0.down",
        "middle",
    ]
    fewer.train()
    loss = fewer(x, y)
    loss.backward()
    assert bool(loss.isfinite())


def test_branches_of_built_in_networks() -> None:
    for name in ("preresnet20", "resnet20"):
        net = prepare(build(name, 1, 10, (3, 8, 8)), torch.rand(2, 3, 8, 8))
        places = [f"stages.{stage}.{block}" for stage in range(3) for block in range(3)]
        assert {layer: set(branch.feeding) for layer, branch in net.preparation.branches.items()} == {
            f"{place}.conv1": {f"{place}.conv0"} for place in places
        }


def test_branches_of_torchs_encoder_layer() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 3))
    net = prepare(model, torch.rand(2, 5, 4))
    assert {layer: set(branch.feeding) for layer, branch in net.preparation.branches.items()} == {
        "1.self_attn.out_proj": {"1.self_attn.q_proj", "1.self_attn.k_proj", "1.self_attn.v_proj"},
        "1.linear2": {"1.linear1"},
    }


class Sums(nn.Module):
    """Sums that can't do without their terms."""

    def __init__(self, wire: str) -> None:
        super().__init__()
        self.wire = wire
        self.stem, self.a, self.b, self.c, self.head = (nn.Linear(4, 4) for _ in range(5))
        self.narrow, self.norm = nn.Linear(4, 1), nn.LayerNorm(4)
        self.place = nn.Parameter(torch.rand(4))

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        h = self.stem(x)
        match self.wire:
            case "two of the same length":
                h = self.a(h) + self.b(h)
            case "a constant":
                h = self.a(h) + self.place
            case "read by another as well":
                h = h + (a := self.a(h)) + self.narrow(a)
            case "scaled by the sum":
                h = torch.add(h, self.a(h), alpha=2)
            case "a norm that adds":
                h = h + self.norm(self.a(h))
            case "of another shape":
                h = self.narrow(h) + self.b(self.a(h))
            case "of the input alone":
                h = x + self.a(self.b(x))
            case "returned":
                return self.head(h + (a := self.a(h))), a
        out: Tensor = self.head(h)
        return out


@pytest.mark.parametrize(
    "wire",
    [
        "two of the same length",
        "a constant",
        "read by another as well",
        "scaled by the sum",
        "a norm that adds",
        "of another shape",
        "of the input alone",
        "returned",
    ],
)
def test_what_is_needed_is_not_dropped(wire: str) -> None:
    output = 0 if wire == "returned" else None
    net = prepare(Sums(wire), torch.rand(2, 4), output=output)
    assert "a" not in net.preparation.branches
    with pytest.raises(InputError, match="'a' 0 bits, which only the last layer of a residual branch can have"):
        prepare(Sums(wire), torch.rand(2, 4), layers={"a": 0}, output=output)


def test_a_refusal_names_the_layers_that_can_be_dropped() -> None:
    x = torch.rand(4, 4)
    for layer in ("stem", "middle", "blocks.0.up"):
        with pytest.raises(InputError, match=r"those are blocks\.0\.down$"):
            prepare(residual(["plain"], set()), x, bits=2, layers={layer: Precision(0, 0)})
    net = prepare(residual(["plain"], set()), x, bits=2, layers={"blocks.0.down": 0})
    assert net.plans["2-bit"].dropped_layers == ["blocks.0.up", "blocks.0.down"]


def test_a_network_without_low_layers_is_refused() -> None:
    net = prepare(residual(["plain"], set()), torch.rand(4, 4), bits=2, layers={"middle": "full"})
    with pytest.raises(InputError, match="no layer is left in low precision"):
        with_plan(net, BitPlan("mixed", {"blocks.0.down": DROPPED}))
