"""problem.under_plan(plan): the same problem with other bits."""

import copy
from collections import OrderedDict
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from networks_as_trained import LAYERS, Signals, as_trained, signals, state_of
from pdqat import (
    FULL,
    Ascent,
    BitPlan,
    BlockConstraint,
    ChannelConstraint,
    Constraint,
    InputError,
    Lagrangian,
    LayerConstraint,
    Multiplicative,
    Network,
    NuPI,
    OutputConstraint,
    Precision,
    prepare,
)
from pdqat.dual_rules import DualRule
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.quantizers import SCHEMES
from pdqat.task import Problem, TaskProblem

X, Y = signals()
MIXED = BitPlan("mixed", {"conv1": Precision(8, 8), "hidden": Precision(None, 4)})
SAME = BitPlan("same", {"conv0": Precision(2, 2)})
every_scheme = pytest.mark.parametrize("quantizer", SCHEMES)


def trained_net(quantizer: str = "dorefa", **options: object) -> Network:
    torch.manual_seed(0)
    return as_trained(prepare(Signals(), X, 2, quantizer=quantizer, **options))  # type: ignore[arg-type]


def problem(net: Network | None = None, *constraints: Constraint, **options: object) -> Lagrangian:
    options = {"duals": NuPI(0.5, damping=0.25, nu=0.5), **options}
    result = Lagrangian(net or trained_net(), F.cross_entropy, constraints or None, **options)  # type: ignore[arg-type]
    for _ in range(2):
        result.duals.step(torch.rand(len(result.duals.multipliers), generator=torch.Generator().manual_seed(2)))
    return result


def view_of(net: Network, kind: str = "") -> dict[str, Tensor]:
    """What belongs to the network's one plan, without its name in the keys."""
    (plan,) = net.plans
    state = state_of(net)
    return {
        key.replace(f".{plan}.", ".*."): value for key, value in state.items() if f".{plan}." in key and kind in key
    }


@torch.no_grad()
def outputs(net: Network) -> dict[str, Tensor]:
    """In evaluation mode: full and low precision."""
    twin = copy.deepcopy(net).eval()
    full = twin(X)
    with twin.under(next(iter(twin.plans))):
        return {"full": full, "low": twin(X)}


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert [key for key in ours if not torch.equal(ours[key], theirs[key])] == []


@every_scheme
@pytest.mark.parametrize("integer_sums", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_the_same_bits_compute_the_same(quantizer: str, integer_sums: bool, tied: bool) -> None:
    before = problem(trained_net(quantizer, integer_sums=integer_sums, tied_norms=tied))
    after = before.under_plan(SAME)
    assert after.net.plans["same"].precisions == before.net.plans["2-bit"].precisions
    assert_same(view_of(after.net), view_of(before.net))
    assert_same(outputs(after.net), outputs(before.net))
    assert torch.equal(after.eval()(X, Y), before.eval()(X, Y))
    assert torch.equal(after.train()(X, Y), before.train()(X, Y))


@every_scheme
@pytest.mark.parametrize("tied", [False, True])
def test_weights_norms_and_sums_go_on_and_quantisers_where_the_bits_do(quantizer: str, tied: bool) -> None:
    before = problem(trained_net(quantizer, integer_sums=True, tied_norms=tied))
    after = before.under_plan(MIXED)
    assert after.net.plans["mixed"].as_text() == {"conv0": "2", "conv1": "8", "conv2": "2", "hidden": "a4"}
    plain = {key: value for key, value in state_of(before.net).items() if "views" not in key and "sums" not in key}
    assert_same({key: value for key, value in state_of(after.net).items() if key in plain}, plain)
    for kind in ("norm", "sums", "conv0", "conv2"):
        assert view_of(after.net, kind).keys() == view_of(before.net, kind).keys()
        assert_same(view_of(after.net, kind), view_of(before.net, kind))
    assert torch.equal(outputs(after.net)["full"], outputs(before.net)["full"])
    assert not torch.equal(outputs(after.net)["low"], outputs(before.net)["low"])
    norm, view = (after.net.model.get_submodule(name) for name in ("norm0", "norm0.views.mixed"))
    assert (view.weight is norm.weight) is tied


@pytest.mark.parametrize("quantizer", ["uniform", "lsq"])
def test_quantisers_of_other_bits_fit_what_the_layer_reads_under_the_plan(quantizer: str) -> None:
    """The plan's own norm makes values ten times as large as the full-precision one's."""
    net = trained_net(quantizer)
    with torch.no_grad():
        for key in ("weight", "bias"):
            net.model.get_parameter(f"norm0.views.2-bit.{key}").copy_(
                10 * net.model.get_parameter(f"norm0.{key}").abs()
            )
    after = problem(net).under_plan(BitPlan("mixed", {"conv1": Precision(8, 8)})).net.eval()
    quantizers = after.layers["conv1"].views["mixed"]
    assert isinstance(quantizers, LayerQuantizers)
    read: list[Tensor] = []
    after.layers["conv1"].register_forward_pre_hook(lambda _, args: read.append(args[0].detach()))
    with after.under("mixed"):
        after(X)
    fresh = SCHEMES[quantizer].activation()
    fresh.calibrate(read[0], 8)
    for key, value in fresh.state_dict().items():
        torch.testing.assert_close(
            quantizers.activation.state_dict()[key], value, msg=f"{key} is not that of the values read"
        )


@every_scheme
def test_the_original_stays_as_it_was_and_apart(quantizer: str) -> None:
    before = problem(trained_net(quantizer, integer_sums=True))
    state, value = state_of(before), before.eval()(X, Y)
    before.train()
    after = before.under_plan(MIXED)
    with torch.no_grad():
        for tensor in (*after.parameters(), *after.buffers()):
            tensor.zero_()
    assert_same(state_of(before), state)
    assert torch.equal(before.eval()(X, Y), value)
    assert list(before.net.plans) == ["2-bit"]
    ours, theirs = ({id(tensor) for tensor in (*module.parameters(), *module.buffers())} for module in (before, after))
    assert not ours & theirs


def test_both_problems_go_on_training() -> None:
    before = problem(trained_net("lsq"))
    after = before.under_plan(MIXED)
    for lagrangian in (before, after):
        lagrangian.train()(X, Y).backward()
        assert lagrangian.net.layers["conv1"].weight.grad is not None
        assert lagrangian.dual_step().isfinite().all()
    assert before.net.layers["conv1"].weight.grad is not after.net.layers["conv1"].weight.grad


def test_multipliers_and_their_memory_go_on() -> None:
    before = problem()
    after = before.under_plan(MIXED)
    for vector in ("multipliers", "smoothed"):
        old, new = (duals.named(getattr(duals, vector)) for duals in (before.duals, after.duals))
        assert list(new) == ["mixed/output", "mixed/layer/conv0", "mixed/layer/conv1", "mixed/layer/conv2"]
        assert all(new[name].item() == old[name.replace("mixed", "2-bit")].item() > 0 for name in new)
    assert after.duals.rule == before.duals.rule
    again = after.under_plan(BitPlan("all-low", {"hidden": Precision(2, 2)}))
    assert again.duals.named()["all-low/layer/hidden"].item() == 0, "it was not constrained: a fresh start"


def test_multipliers_of_channels_go_on_beside_those_of_the_output() -> None:
    before = problem(None, OutputConstraint(), ChannelConstraint())
    after = before.under_plan(MIXED)
    old, new = before.duals.named(), after.duals.named()
    assert list(new) == ["mixed/output", "mixed/channel/conv0", "mixed/channel/conv1", "mixed/channel/conv2"]
    assert all(torch.equal(value, old[name.replace("mixed", "2-bit")]) for name, value in new.items())


def test_the_running_slacks_start_anew() -> None:
    before = problem()
    before(X, Y)
    after = before.under_plan(MIXED)
    assert after.samples.item() == 0
    assert before.samples.item() == len(X)


def test_the_outputs_tolerance_stays_and_layers_follow_their_bits() -> None:
    after = problem().under_plan(MIXED)
    assert {bound.where: bound.tolerance for bound in after.bounds} == {
        "": pytest.approx((1 / 3) ** 2),
        "conv0": pytest.approx((1 / 3) ** 2),
        "conv1": pytest.approx((1 / 255) ** 2),
        "conv2": pytest.approx((1 / 3) ** 2),
    }
    least = after.under_plan(BitPlan("one", {"conv0": Precision(1, 1)}))
    assert least.bounds[0].tolerance == pytest.approx((1 / 3) ** 2)


def test_given_tolerances_and_prices_stay() -> None:
    constraints = [OutputConstraint("squared", 0.5, price=2.0), LayerConstraint("squared", {"conv1": 0.25, "*": 0.125})]
    before = problem(None, *constraints, duals=Ascent(0.5), gradient="exact", layer_sample=0.5)
    after = before.under_plan(MIXED)
    assert [(bound.tolerance, bound.price) for bound in after.bounds] == [
        (0.5, 2.0),
        (0.125, None),
        (0.25, None),
        (0.125, None),
    ]
    assert torch.equal(after.tolerances, before.tolerances[:4]), "the output's has moved with its multiplier"
    assert (after.gradient, after.layer_sample, after.loss) == (before.gradient, 0.5, F.cross_entropy)


def with_block(rule: DualRule) -> tuple[Lagrangian, Tensor, Tensor]:
    """A block of two layers, one layer beside it, and a batch."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    layers = OrderedDict(first=nn.Linear(3, 4), body=body, middle=nn.Linear(4, 4), last=nn.Linear(4, 2))
    x, y = torch.rand(6, 3), torch.arange(6) % 2
    net = prepare(nn.Sequential(layers), x, quantizer="uniform")
    return Lagrangian(net, F.cross_entropy, [BlockConstraint(blocks=["body"])], duals=rule), x, y


def test_blocks_are_watched_in_the_copy() -> None:
    before, x, y = with_block(Ascent())
    after = before.under_plan(BitPlan("eight", {"body.0": Precision(8, 8), "body.2": Precision(8, 8)}))
    assert after.bounds[0].tolerance == pytest.approx((1 / 255) ** 2)
    coarse, fine = (lagrangian.terms(x, y).distances.item() for lagrangian in (before, after))
    assert 0 < fine < coarse / 10


def test_modes_stay_module_by_module() -> None:
    net = trained_net("lsq", integer_sums=True)
    lagrangian = problem(net)
    for module in (net.model.get_submodule("norm0"), net.model.get_submodule("conv2")):
        module.eval()
    after = lagrangian.under_plan(BitPlan("2-bit", {"conv1": Precision(8, 8)}))
    modes = [{name: part.training for name, part in whole.named_modules()} for whole in (lagrangian, after)]
    assert modes[0] == modes[1]
    assert not modes[1]["net.model.norm0.views.2-bit"]
    evaluated = lagrangian.eval().under_plan(MIXED)
    assert [name for name, module in evaluated.named_modules() if module.training] == []


def test_frozen_parameters_stay_frozen() -> None:
    net = trained_net()
    for name in ("stem", "conv0", "norm0"):
        net.model.get_submodule(name).requires_grad_(False)
    after = problem(net).under_plan(MIXED).net
    frozen = {
        name.replace("mixed", "2-bit") for name, value in after.model.named_parameters() if not value.requires_grad
    }
    assert frozen == {name for name, value in net.model.named_parameters() if not value.requires_grad}


@pytest.mark.parametrize("quantizer", ["dorefa", "uniform", "lsq"])
def test_after_a_change_of_type(quantizer: str) -> None:
    before = Lagrangian(trained_net(quantizer).double(), F.cross_entropy)
    after = before.under_plan(MIXED)
    assert {value.dtype for value in state_of(after).values() if value.is_floating_point()} == {torch.float64}
    assert after(X.double(), Y).isfinite()


class Aliased(nn.Module):
    """One layer under two names, one norm under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.a = self.z = nn.Linear(4, 4)
        self.middle = nn.Linear(4, 4)
        self.norm = self.same_norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.middle(self.same_norm(self.a(self.first(x))).relu()))
        return y


@every_scheme
def test_modules_under_two_names(quantizer: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 4)
    before = as_trained(prepare(Aliased(), x, quantizer=quantizer)).eval()
    after = TaskProblem(before, F.cross_entropy).under_plan(BitPlan("same", {"a": Precision(2, 2)})).net
    with torch.no_grad(), before.under("2-bit"), after.under("same"):
        assert torch.equal(before(x), after(x))


def test_what_prepare_left_alone_keeps_its_reasons() -> None:
    before = problem()
    assert before.under_plan(MIXED).net.left_alone == before.net.left_alone
    assert list(before.under_plan(MIXED).net.layers) == LAYERS


@dataclass(frozen=True)
class Advice:
    """As `allocate` returns it: a name, precisions and more."""

    name: str = "advice"
    precisions: dict[str, Precision] = field(default_factory=lambda: {"conv2": Precision(4, 4)})
    cost: float = 0.0


def test_a_plan_is_all_that_has_a_name_and_precisions() -> None:
    after = problem().under_plan(Advice())
    assert after.net.plans["advice"].as_text() == {"conv0": "2", "conv1": "2", "conv2": "4", "hidden": "2"}


def test_layers_in_full_precision_can_come_back() -> None:
    before = problem()
    full = before.under_plan(BitPlan("some", {"conv0": FULL, "hidden": FULL}))
    assert [bound.where for bound in full.bounds] == ["", "conv1", "conv2"]
    back = full.under_plan(BitPlan("back", {"conv0": Precision(2, 2), "hidden": Precision(2, 2)}))
    assert_same(outputs(back.net), outputs(before.net))


WRONG = {
    "an unknown layer": (
        BitPlan("p", {"conv9": Precision(2, 2)}),
        "the plan names the layer 'conv9', which the network was not prepared to quantise; its layers are conv0, conv1",
    ),
    "an end": (BitPlan("p", {"stem": Precision(2, 2)}), "the plan names the layer 'stem'"),
    "nothing low": (BitPlan("p", dict.fromkeys(LAYERS, FULL)), "the plan 'p' leaves every layer in full precision"),
}


@pytest.mark.parametrize(("plan", "message"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("kind", [OutputConstraint, LayerConstraint, ChannelConstraint])
def test_plans_that_do_not_fit_are_refused(plan: BitPlan, message: str, kind: type[Constraint]) -> None:
    before = problem(None, kind())
    for refuse in (before.under_plan, before.check_plan, TaskProblem(before.net, F.cross_entropy).under_plan):
        with pytest.raises(InputError, match=message):
            refuse(plan)


def test_several_plans_are_refused() -> None:
    torch.manual_seed(0)
    net = prepare(Signals(), X, [2, 4])
    lagrangian = Lagrangian(net, F.cross_entropy)
    for refuse in (lagrangian.under_plan, lagrangian.check_plan, TaskProblem(net, F.cross_entropy).under_plan):
        with pytest.raises(
            InputError, match="the network has 2 plans, 2-bit, 4-bit; to change its plan it must have one"
        ):
            refuse(MIXED)


def test_plans_that_could_not_be_trained_are_refused_beforehand() -> None:
    """Where the weights are in full precision there is nothing for layers; a tolerance of 0 can't be divided by."""
    layers, (blocks, _, _) = problem(None, LayerConstraint()), with_block(Multiplicative())
    layers.check_plan(MIXED)
    blocks.check_plan(BitPlan("p", {"body.0": FULL}))
    only_activations = BitPlan("p", dict.fromkeys(LAYERS, Precision(None, 4)))
    full_block = BitPlan("p", {"body.0": FULL, "body.2": FULL})
    for lagrangian, plan, message in (
        (layers, only_activations, "the constraints apply to nothing"),
        (blocks, full_block, "needs tolerances above 0, but that of p/block/body is 0"),
    ):
        for refuse in (lagrangian.check_plan, lagrangian.under_plan):
            with pytest.raises(InputError, match=message):
                refuse(plan)


@pytest.mark.parametrize("low", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_task_problems_go_on_under_other_plans(low: bool, training: bool) -> None:
    before: Problem = TaskProblem(trained_net(), F.cross_entropy, low).train(training)
    same, mixed = before.under_plan(SAME), before.under_plan(MIXED)
    assert isinstance(same, TaskProblem)
    assert (same.low, same.training, same.bounds) == (low, training, ())
    assert list(same.terms(X, Y).outputs) == (["same"] if low else ["full"])
    values = [task(X, Y).item() for task in (before, same, mixed)]
    assert values[0] == values[1]
    assert (values[1] != values[2]) is low
