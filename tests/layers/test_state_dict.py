from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import Lagrangian, Network, prepare
from pdqat.models import preresnet_small
from pdqat.quantizers import SCHEMES

X, Y = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
every_scheme = pytest.mark.parametrize("quantizer", SCHEMES)


def plain(seed: int) -> nn.Module:
    """With statistics and affine parts that are not those of a fresh norm."""
    torch.manual_seed(seed)
    model = preresnet_small(classes=3)
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.uniform_(norm.bias, -0.5, 0.5)
    model(torch.rand(8, 1, 8, 8))
    return model


def prepared(seed: int, quantizer: str, tied: bool = False) -> Network:
    return prepare(plain(seed), X, [2, 4], quantizer=quantizer, tied_norms=tied)


def trained(quantizer: str, tied: bool = False) -> Network:
    net = prepared(0, quantizer, tied)
    lagrangian = Lagrangian(net, F.cross_entropy, gradient="straight-through")
    optimizer = torch.optim.Adam(lagrangian.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        lagrangian(X, Y).backward()
        optimizer.step()
    return net


@torch.no_grad()
def outputs(net: Network) -> dict[str | None, Tensor]:
    result = {}
    net.eval()
    for plan in (None, *net.plans):
        with net.under(plan):
            result[plan] = net(X)
    return result


def assert_same_outputs(first: Network, second: Network) -> None:
    ours, theirs = outputs(first), outputs(second)
    assert [view for view in ours if not torch.equal(ours[view], theirs[view])] == []


@every_scheme
def test_plain_keys_stay_and_plans_add_theirs(quantizer: str) -> None:
    before = plain(0).state_dict()
    after = prepared(0, quantizer).state_dict()
    assert [key for key in after if key in before] == list(before)
    added = [key for key in after if key not in before]
    assert all(".views.2-bit." in key or ".views.4-bit." in key for key in added)
    assert all(torch.equal(value, after[key]) for key, value in before.items())


@pytest.mark.parametrize(("quantizer", "tied"), [*((name, False) for name in SCHEMES), ("dorefa", True)])
def test_saved_and_loaded_in_every_view(quantizer: str, tied: bool, tmp_path: Path) -> None:
    net, fresh = trained(quantizer, tied), prepared(1, quantizer, tied)
    torch.save(net.state_dict(), tmp_path / "model.pt")
    result = fresh.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert result.missing_keys == result.unexpected_keys == []
    assert_same_outputs(net, fresh)


@every_scheme
def test_a_plain_models_state_loads_strictly_and_norms_of_all_views_start_from_it(quantizer: str) -> None:
    source = plain(3)
    net = prepared(1, quantizer)
    result = net.load_state_dict(source.state_dict())
    assert result.missing_keys == result.unexpected_keys == []
    state = net.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in source.state_dict().items())
    for key, value in state.items():
        for plan in net.plans:
            if "norm" in key and f".views.{plan}" in key:
                assert torch.equal(value, state[key.replace(f".views.{plan}", "")])


def test_a_plain_state_gives_the_model_prepared_from_it() -> None:
    net = prepared(1, "dorefa")
    net.load_state_dict(plain(3).state_dict())
    assert_same_outputs(net, prepared(3, "dorefa"))


@pytest.mark.parametrize("quantizer", ["dorefa", "lsq"])
def test_the_plain_part_of_a_state_loads_into_a_plain_model(quantizer: str) -> None:
    net, model = trained(quantizer), plain(5)
    model.load_state_dict({key: value for key, value in net.state_dict().items() if "views" not in key})
    torch.testing.assert_close(model.state_dict(), net.restore().state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("quantizer", ["dorefa", "lsq"])
def test_states_load_as_part_of_a_larger_module(quantizer: str) -> None:
    """The network has no prefix of its own, wherever it is."""
    net = trained(quantizer)
    outer = nn.ModuleDict({"net": net, "other": nn.Linear(2, 2)})
    assert {f"net.{key}" for key in net.state_dict()} <= set(outer.state_dict())
    fresh = nn.ModuleDict({"net": prepared(1, quantizer), "other": nn.Linear(2, 2)})
    fresh.load_state_dict(outer.state_dict())
    loaded = fresh["net"]
    assert isinstance(loaded, Network)
    assert_same_outputs(net, loaded)


def test_wrong_keys_are_refused() -> None:
    net = prepared(0, "dorefa")
    state = net.state_dict()
    with pytest.raises(RuntimeError, match="Unexpected key"):
        net.load_state_dict({**state, "stem.bia": torch.zeros(3)})
    missing = {key: value for key, value in state.items() if key != "stem.weight"}
    with pytest.raises(RuntimeError, match="Missing key"):
        net.load_state_dict(missing)
    result = net.load_state_dict(missing, strict=False)
    assert [key.removeprefix("model.") for key in result.missing_keys] == ["stem.weight"]


def test_loading_leaves_the_given_state_alone() -> None:
    state = plain(3).state_dict()
    keys = list(state)
    prepared(0, "lsq").load_state_dict(state)
    assert list(state) == keys


def test_another_plans_state_is_refused() -> None:
    net = prepare(plain(0), X, 8)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*views.2-bit"):
        net.load_state_dict(prepared(0, "dorefa").state_dict())
