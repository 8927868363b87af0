"""What of a network's state belongs to which plan."""

from typing import Any

import pytest
import torch

from networks_as_trained import Signals, as_trained, signals, state_of
from pdqat import Network, prepare
from pdqat.layers.transfer import plain_state, take_view, views_in
from pdqat.quantizers import SCHEMES

X, _ = signals()


def trained_net(*bits: int, seed: int = 0, **options: object) -> Network:
    torch.manual_seed(seed)
    return as_trained(prepare(Signals(), X, bits, **options), seed)  # type: ignore[arg-type]


def test_views_in_a_state() -> None:
    assert views_in(trained_net(2, 4, integer_sums=True).state_dict()) == ["2-bit", "4-bit"]
    assert views_in(Signals().state_dict()) == []
    assert views_in({"views.only.weight": 0, "conv.weight": 0}) == ["only"], "the root may be a norm"


@pytest.mark.parametrize("quantizer", SCHEMES)
def test_the_plain_part_of_a_state(quantizer: str) -> None:
    net = trained_net(2, 4, integer_sums=True, quantizer=quantizer)
    plain = Signals()
    assert plain_state(net.state_dict()).keys() == plain.state_dict().keys()
    plain.load_state_dict(plain_state(net.state_dict()))
    restored = net.restore().eval()
    assert torch.equal(plain.eval()(X), restored(X))


@pytest.mark.parametrize("quantizer", SCHEMES)
def test_one_of_several_views_is_taken(quantizer: str) -> None:
    """Its norms and sums, and the quantisers of the layers that are named; all else stays."""
    how: dict[str, Any] = {"integer_sums": True, "quantizer": quantizer, "tied_norms": False}
    source, net = trained_net(2, 4, **how), trained_net(4, seed=5, **how)
    before, state = state_of(net), state_of(source)
    take_view(net, state, "2-bit", quantizers_of=["conv0"])
    for key, value in state_of(net).items():
        is_taken = ".sums." in key or (".views." in key and key.startswith(("norm", "conv0")))
        assert torch.equal(value, state[key.replace("4-bit", "2-bit")] if is_taken else before[key]), key


def test_a_state_without_the_view_changes_nothing() -> None:
    net = trained_net(4, integer_sums=True)
    before = state_of(net)
    take_view(net, Signals().state_dict(), "2-bit")
    assert all(torch.equal(value, before[key]) for key, value in state_of(net).items())
