"""torch's attention with its projections as layers, against torch's own."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import Lagrangian, Network, prepare
from pdqat.layers.projection import join_, split_

Masks = dict[str, Tensor]
BATCH, TIME, HEADS, SIZE = 3, 5, 2, 8


def masks(kind: str) -> Masks:
    hidden = torch.zeros(BATCH, TIME, dtype=torch.bool)
    hidden[1, 3:] = True
    causal = torch.ones(TIME, TIME, dtype=torch.bool).triu(1)
    numbers = torch.randn(BATCH * HEADS, TIME, TIME, generator=torch.Generator().manual_seed(1))
    return {
        "none": {},
        "padding": {"key_padding_mask": hidden},
        "causal": {"attn_mask": causal},
        "both": {"attn_mask": causal, "key_padding_mask": hidden},
        "numbers for every head": {"attn_mask": numbers},
    }[kind]


@pytest.mark.parametrize("mask", ["none", "padding", "causal", "both", "numbers for every head"])
@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bias": False, "kdim": 6, "vdim": 4}])
@pytest.mark.parametrize("need_weights", [True, False])
@torch.no_grad()
def test_a_split_attention_computes_what_torchs_does(mask: str, options: dict[str, Any], need_weights: bool) -> None:
    torch.manual_seed(0)
    plain = nn.MultiheadAttention(SIZE, HEADS, **options).eval()
    model = nn.Sequential(copy.deepcopy(plain))
    sizes = (SIZE, options.get("kdim", SIZE), options.get("vdim", SIZE))
    given = [torch.randn(*((BATCH, TIME) if plain.batch_first else (TIME, BATCH)), size) for size in sizes]
    split_(model)
    for average in (True, False):
        asked = {**masks(mask), "need_weights": need_weights, "average_attn_weights": average}
        expected, computed = plain(*given, **asked), model[0](*given, **asked)
        torch.testing.assert_close(computed[0], expected[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(computed[1], expected[1], rtol=1e-5, atol=1e-6)
    join_(model)
    assert type(model[0]) is nn.MultiheadAttention
    assert [name for name, _ in model[0].named_modules()] == [name for name, _ in plain.named_modules()]


@torch.no_grad()
def test_a_single_sample_needs_no_batch() -> None:
    plain = nn.MultiheadAttention(SIZE, HEADS).eval()
    model = nn.Sequential(copy.deepcopy(plain))
    split_(model)
    x, hidden = torch.randn(TIME, SIZE), torch.tensor([False, False, False, True, True])
    for expected, computed in zip(plain(x, x, x, hidden), model[0](x, x, x, hidden), strict=True):
        torch.testing.assert_close(computed, expected, rtol=1e-5, atol=1e-6)


class Encoder(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(SIZE, HEADS, 16, dropout=0.0, batch_first=True, **options)
        self.embed, self.encoder, self.head = nn.Linear(3, SIZE), nn.TransformerEncoder(layer, 2), nn.Linear(SIZE, 2)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        y: Tensor = self.head(self.encoder(self.embed(x), src_key_padding_mask=hidden).mean(1))
        return y


def encoder(**options: Any) -> tuple[Network, nn.Module, Tensor]:
    torch.manual_seed(0)
    model, x = Encoder(**options).eval(), torch.randn(6, TIME, 3)
    return prepare(model, x, 4).eval(), copy.deepcopy(model), x


def test_every_projection_of_an_encoder_is_quantised() -> None:
    net, _, _ = encoder()
    parts = [f"self_attn.{part}" for part in ("q_proj", "k_proj", "v_proj", "out_proj")]
    assert list(net.layers) == [
        f"encoder.layers.{index}.{part}" for index in (0, 1) for part in (*parts, "linear1", "linear2")
    ]
    assert net.left_alone.keys() == {"embed", "head"}


def test_packed_parameters_keep_their_names_and_are_trained() -> None:
    torch.manual_seed(0)
    model = Encoder()
    before = dict(model.named_parameters())
    keys = model.state_dict().keys()
    net = prepare(model, torch.randn(6, TIME, 3), 4)
    assert dict(net.model.named_parameters()).items() >= before.items()
    assert net.state_dict().keys() >= keys
    problem = Lagrangian(net, F.cross_entropy)
    problem(torch.randn(6, TIME, 3), torch.arange(6) % 2).backward()
    packed = before["encoder.layers.0.self_attn.in_proj_weight"].grad
    assert packed is not None
    assert all(bool(part.any()) for part in packed.chunk(3))
    assert net.restore().state_dict().keys() == keys


@torch.no_grad()
def test_low_precision_rounds_what_each_projection_reads_and_its_part_of_the_weight() -> None:
    """By torch's own attention, with the rounded parts written into it."""
    torch.manual_seed(0)

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.attention, self.last = (
                nn.Linear(3, SIZE),
                nn.MultiheadAttention(SIZE, HEADS, batch_first=True),
                nn.Linear(SIZE, 2),
            )

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.first(x)
            y: Tensor = self.last(self.attention(hidden, hidden, hidden)[0])
            return y

    model, x = Attending().eval(), torch.randn(6, TIME, 3)
    plain = copy.deepcopy(model)
    net = prepare(model, x, "w3").eval()
    with net.under("w3"):
        low = net(x)
    rounded = [net.layers[f"attention.{part}"].low_weight(net.plans["w3"]) for part in ("q_proj", "k_proj", "v_proj")]
    plain.attention.in_proj_weight.copy_(torch.cat(rounded))
    plain.attention.out_proj.weight.copy_(net.layers["attention.out_proj"].low_weight(net.plans["w3"]))
    torch.testing.assert_close(plain(x), low, rtol=1e-5, atol=1e-6)
    restored = net.restore(plan="w3")
    torch.testing.assert_close(restored(x), low, rtol=1e-6, atol=1e-6)


@torch.no_grad()
def test_padding_does_not_lead_past_the_layers() -> None:
    """In evaluation torch's encoder would turn padded batches into nested ones, and read the plain weights."""
    net, plain, x = encoder()
    hidden = torch.zeros(6, TIME, dtype=torch.bool)
    hidden[2:, 4:] = True
    expected = plain.train()(x, hidden)  # no fast path in training, and no dropout here
    torch.testing.assert_close(net(x, hidden), expected, rtol=1e-5, atol=1e-5)
    with net.under("4-bit"):
        assert not torch.allclose(net(x, hidden), expected, atol=1e-4)


def test_an_attention_with_a_bias_of_keys_is_left_alone_and_said_so() -> None:
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle, self.last = (nn.Linear(4, 4) for _ in range(3))
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.first(x)
            y: Tensor = self.last(self.middle(self.attention(hidden, hidden, hidden)[0]))
            return y

    net = prepare(Attending(), torch.rand(2, 3, 4))
    assert list(net.layers) == ["middle"]
    assert net.left_alone["attention"].startswith("MultiheadAttention with add_bias_kv")
    assert not any(name.startswith("attention.") for name in net.left_alone)


def test_low_precision_of_an_attention_whose_projections_have_weights_of_their_own() -> None:
    class Crossed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(3, 8), nn.Linear(8, 2)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True, kdim=3, vdim=3)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.head(self.attention(self.stem(x), x, x, need_weights=False)[0])
            return y

    torch.manual_seed(0)
    x = torch.randn(4, 5, 3)
    net = prepare(Crossed(), x, bits=3).eval()
    with torch.no_grad(), net.under("3-bit"):
        expected = net(x)
    low = net.restore(plan="3-bit")
    assert torch.equal(low(x), expected)
    assert len(low.attention.q_proj_weight.unique()) <= 8  # type: ignore[union-attr, operator]
