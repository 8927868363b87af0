import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import BlockConstraint, InputError, Lagrangian, LayerConstraint, Network, OutputConstraint, prepare
from pdqat.models import preresnet_small
from pdqat.precision import BitPlan, Precision
from pdqat.quantizers import SCHEMES, DoReFaActivation, DoReFaWeight

X, Y = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
BLOCKS = ["stages.1.0", "stages.2.0"]


def prepared(**options: object) -> Network:
    torch.manual_seed(0)
    return prepare(preresnet_small(classes=3), X, [2, 4], **options)  # type: ignore[arg-type]


def lagrangian_with_everything(net: Network) -> Lagrangian:
    constraints = [OutputConstraint(), LayerConstraint("squared"), BlockConstraint(blocks=BLOCKS)]
    return Lagrangian(net, F.cross_entropy, constraints)


def statistics(net: Network, view: str = "") -> dict[str, list[float]]:
    """Running statistics of one view's norms; "" is the full-precision one."""
    part = f"views.{view}." if view else ""
    keys = ("running_mean", "running_var", "num_batches_tracked")
    names = [name for name in net.state_dict() if name.endswith(keys) and ("views" in name) == bool(view)]
    return {name: net.state_dict()[name].tolist() for name in names if part in name}


def test_full_precision_without_a_plan_and_low_precision_under_one() -> None:
    """What a single quantised layer computes, written out."""
    torch.manual_seed(0)
    x = torch.rand(5, 4)
    first, middle, last = (nn.Linear(4, 4) for _ in range(3))
    net = prepare(nn.Sequential(first, middle, last), x, [2, "w4", "a4"], quantizer="dorefa")
    h, weight, bias = F.linear(x, first.weight, first.bias), middle.weight, middle.bias
    weights, activations = DoReFaWeight(), DoReFaActivation()
    expected = {
        None: F.linear(h, weights.full(weight), bias),
        "2-bit": F.linear(activations.quantize(h, 2), weights.quantize(weight, 2), bias),
        "w4": F.linear(h, weights.quantize(weight, 4), bias),
        "a4": F.linear(activations.quantize(h, 4), weights.full(weight), bias),
    }
    for plan, hidden in expected.items():
        with net.under(plan) as same:
            assert same is net
            torch.testing.assert_close(net(x), F.linear(hidden, last.weight, last.bias))


def test_views_nest_and_end_with_their_block() -> None:
    net = prepared().eval()
    full = net(X)
    with net.under("2-bit"):
        two = net(X)
        with net.under(None):
            assert torch.equal(net(X), full)
        with net.under(net.plans["4-bit"]):
            assert not torch.equal(net(X), two)
        assert torch.equal(net(X), two)
    assert torch.equal(net(X), full)


def test_a_view_ends_with_an_error_too() -> None:
    net = prepared().eval()
    full = net(X)

    def fail() -> None:
        with net.under("2-bit"):
            net(torch.rand(8, 5, 8, 8))

    with pytest.raises(RuntimeError):
        fail()
    assert torch.equal(net(X), full)


def test_an_unknown_plan_names_the_known() -> None:
    view = prepared().under("8-bit")
    with pytest.raises(InputError, match="the network has no plan '8-bit'; it was prepared with 2-bit, 4-bit"), view:
        pass


def test_another_plan_of_a_known_name_is_refused() -> None:
    net = prepared()
    own = net.plans["2-bit"]
    with net.under(BitPlan("2-bit", dict(own.precisions))):
        pass
    view = net.under(BitPlan("2-bit", {**own.precisions, next(iter(own.precisions)): Precision(8, 8)}))
    with pytest.raises(InputError, match="the plan '2-bit' that was given is not the one of that name"), view:
        pass


@pytest.mark.parametrize("view", ["", "2-bit", "4-bit"])
def test_training_one_view_moves_only_its_statistics(view: str) -> None:
    net = prepared().train()
    before = {each: statistics(net, each) for each in ("", "2-bit", "4-bit")}
    assert len(before["2-bit"]) == len(before[""]) > 0
    with net.under(view or None):
        net(X)
    for each, old in before.items():
        new = statistics(net, each)
        moved = {name for name in old if old[name] != new[name]}
        assert moved == (set(old) if each == view else set())


def test_full_precision_statistics_see_one_plain_forward_in_a_lagrangian() -> None:
    """Neither the plans nor the twins of layers and blocks touch them."""
    net, plain = prepared().train(), prepared().train()
    plain(X)
    lagrangian_with_everything(net)(X, Y)
    assert statistics(net) == statistics(plain)


def test_statistics_of_a_plan_see_one_forward_under_it_in_a_lagrangian() -> None:
    net, plain = prepared().train(), prepared().train()
    with plain.under("4-bit"):
        plain(X)
    lagrangian_with_everything(net)(X, Y)
    assert statistics(net, "4-bit") == statistics(plain, "4-bit")


def test_evaluation_moves_nothing() -> None:
    net = prepared(quantizer="uniform").eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    lagrangian_with_everything(net).eval()(X, Y)
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in before.items())


def everything(module: nn.Module) -> dict[tuple[str, str], object]:
    """The attributes of every submodule: tensors by identity, containers by their content.

    Buffers may be replaced, as a quantiser's memory is, by others of their kind that hold no graph.
    """
    parts: dict[tuple[str, str], object] = {}
    for name, each in module.named_modules():
        for key, value in vars(each).items():
            parts[name, key] = copy.copy(value) if isinstance(value, dict | list | set) else value
        parts[name, "_buffers"] = {
            key: None if value is None else (value.shape, value.dtype, value.requires_grad, value.grad_fn)
            for key, value in each._buffers.items()
        }
    return parts


@pytest.mark.parametrize("quantizer", SCHEMES)
def test_no_tensor_stays_behind_on_a_module(quantizer: str) -> None:
    torch.manual_seed(0)
    net = prepare(preresnet_small(classes=3), X, [2, 4], quantizer=quantizer)
    lagrangian = lagrangian_with_everything(net)
    before, state = everything(lagrangian), vars(net.state).copy()
    lagrangian(X, Y).backward()
    after = everything(lagrangian)
    assert after.keys() == before.keys()
    assert [key for key, value in before.items() if value is not after[key] and value != after[key]] == []
    assert vars(net.state) == state


def test_a_copy_has_its_own_view() -> None:
    net = prepared().eval()
    twin = copy.deepcopy(net)
    full = net(X)
    with twin.under("2-bit"):
        assert torch.equal(net(X), full)
        assert not torch.equal(twin(X), full)
    with net.under("2-bit"):
        assert torch.equal(twin(X), full)


def test_training_a_copy_leaves_the_original_alone() -> None:
    """Block hooks and their recorders included."""
    lagrangian = lagrangian_with_everything(prepared(quantizer="lsq"))
    twin = copy.deepcopy(lagrangian)
    before = {name: value.clone() for name, value in lagrangian.state_dict().items() if isinstance(value, Tensor)}
    optimizer = torch.optim.Adam(twin.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        twin(X, Y).backward()
        optimizer.step()
    twin.dual_step()
    assert all(torch.equal(value, lagrangian.state_dict()[name]) for name, value in before.items())
    assert all(parameter.grad is None for parameter in lagrangian.parameters())
    assert not torch.equal(twin.net(X), lagrangian.net(X))


def test_a_copy_computes_the_same() -> None:
    lagrangian = lagrangian_with_everything(prepared())
    twin = copy.deepcopy(lagrangian)
    assert torch.equal(lagrangian(X, Y), twin(X, Y))
    assert torch.equal(lagrangian.dual_step(), twin.dual_step())
    assert lagrangian.net.plans == twin.net.plans


def test_each_plan_has_its_own_affine_parameters_where_they_are_not_tied() -> None:
    net = prepared(tied_norms=False)
    norm = "stages.0.0.norm0"
    parameters = dict(net.model.named_parameters())
    mine = [parameters[f"{norm}{view}.weight"] for view in ("", ".views.2-bit", ".views.4-bit")]
    assert len({id(each) for each in mine}) == 3
    assert torch.equal(mine[0], mine[1])


def test_a_state_of_untied_norms_is_not_taken_for_one_of_tied_norms() -> None:
    """They have the same keys, and of two values for one Parameter one would be lost."""
    untied, tied = prepared(tied_norms=False), prepared()
    tied.load_state_dict(untied.state_dict())  # where both values are the same nothing is lost
    with torch.no_grad():
        untied.model.get_parameter("stages.0.0.norm0.views.2-bit.weight").fill_(7)
    with pytest.raises(RuntimeError, match="prepare the network with tied_norms=False"):
        tied.load_state_dict(untied.state_dict())
    prepared(tied_norms=False).load_state_dict(untied.state_dict())


def test_tied_norms_share_the_affine_parameters_and_nothing_else() -> None:
    net = prepared().train()
    norm = net.model.get_submodule("stages.0.0.norm0")
    for plan in net.plans:
        view = net.model.get_submodule(f"stages.0.0.norm0.views.{plan}")
        assert view.weight is norm.weight
        assert view.bias is norm.bias
        assert view.running_mean is not norm.running_mean
    assert not any("views" in name for name, _ in net.model.named_parameters())
    twin = copy.deepcopy(net)
    copied = twin.model.get_submodule("stages.0.0.norm0")
    assert twin.model.get_submodule("stages.0.0.norm0.views.2-bit").weight is copied.weight
    before = statistics(net)
    with net.under("2-bit"):
        net(X)
    assert statistics(net) == before


def test_hooks_of_the_user_run_once_in_every_view() -> None:
    torch.manual_seed(0)
    model = preresnet_small(classes=3)
    calls: list[str] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *_: calls.append(name)

    model.get_submodule("stages.0.0.norm0").register_forward_hook(note("norm"))
    model.get_submodule("stages.0.0.conv0").register_forward_hook(note("conv"))
    net = prepare(model, X)
    calls.clear()
    for plan in (None, "2-bit"):
        with net.under(plan):
            net(X)
    assert calls == ["norm", "conv"] * 2


def test_a_network_moves_and_changes_type_as_one() -> None:
    net = prepared(quantizer="uniform").double()
    with net.under("2-bit"):
        assert net(X.double()).dtype == torch.float64
    assert {each.dtype for each in net.state_dict().values() if each.is_floating_point()} == {torch.float64}
