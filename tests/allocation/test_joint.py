"""Branches that may be dropped, in the integer program: against brute force."""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pdqat import InputError, Lagrangian, allocate, prepare
from pdqat.allocation.budget import Budget, Unit, plan_uses
from pdqat.allocation.frontier import frontier
from pdqat.allocation.joint import Branches, plan_cost
from pdqat.allocation.program import cheapest_plan
from pdqat.layers.sizes import LayerSize
from pdqat.precision import DROPPED, FULL, BitPlan, Precision
from pdqat.sensitivity import RANKINGS
from pdqat.sensitivity.trials import loss_under

BITS = [Precision(bits, bits) for bits in (1, 2, 8)]
NAMES = ("a", "b", "c", "d", "e")
BRANCHES: list[Branches] = [
    {"b": ["a"]},
    {"b": ["a"], "e": ["c", "d"]},
    {"a": [], "e": ["b", "c", "d"]},
    {"b": ["a"], "e": ["a", "b", "c", "d"]},
]
"""The last one has a branch in a branch."""


def every_plan(costs: dict[str, dict[Precision, float]], branches: Branches) -> list[dict[str, Precision]]:
    """What may be chosen: a layer that is dropped takes along what feeds it, and nothing else is dropped."""
    plans = []
    for choice in itertools.product(*({*of_layer, DROPPED} for of_layer in costs.values())):
        plan = dict(zip(costs, choice, strict=True))
        lasts = [layer for layer in branches if plan[layer].is_dropped]
        gone = {layer for last in lasts for layer in (last, *branches[last])}
        if gone == {layer for layer in plan if plan[layer].is_dropped}:
            plans.append(plan)
    return plans


def cost_of(costs: dict[str, dict[Precision, float]], plan: dict[str, Precision], branches: Branches) -> float:
    """Of branches in dropped branches only the outermost counts."""
    inside = {layer for last in branches if plan[last].is_dropped for layer in branches[last]}
    return sum(costs[layer][plan[layer]] for layer in plan if layer not in inside)


@settings(max_examples=60)
@given(
    st.sampled_from(BRANCHES), st.integers(0, 10**6), st.floats(0.05, 1.0), st.sampled_from(["bits", "bits and BOPs"])
)
def test_the_plan_is_the_cheapest_that_fits(branches: Branches, seed: int, part: float, units: str) -> None:
    draw = random.Random(seed)
    sizes = {name: LayerSize(draw.randint(1, 500), draw.randint(1, 500)) for name in NAMES}
    costs = {
        name: {it: float(draw.randint(0, 30)) for it in [*BITS, *[DROPPED] * (name in branches)]} for name in NAMES
    }
    full = Budget.of(Unit.BITS, 8 * part)
    if units != "bits":
        most = plan_uses(Unit.BOPS, dict.fromkeys(sizes, BITS[-1]), sizes)
        full = Budget((*full.amounts, *Budget.of(Unit.BOPS, most * part * draw.random()).amounts))
    plans = every_plan(costs, branches)
    fitting = [
        plan
        for plan in plans
        if all(
            used.number <= amount.number * (1 + 1e-9)
            for used, amount in zip(full.used_by(plan, sizes).amounts, full.amounts, strict=True)
        )
    ]
    if not fitting:
        with pytest.raises(InputError, match="no plan fits"):
            cheapest_plan(costs, sizes, full, branches)
        return
    solution = cheapest_plan(costs, sizes, full, branches)
    assert solution.precisions in fitting
    assert solution.cost == pytest.approx(min(cost_of(costs, plan, branches) for plan in fitting), abs=1e-9)
    assert solution.cost == pytest.approx(cost_of(costs, solution.precisions, branches))
    better = [plan for plan in plans if cost_of(costs, plan, branches) < solution.cost - 1e-9]
    assert (solution.next_cost is None) is (not better)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(4, 6), nn.Linear(6, 3)
        self.up, self.down, self.middle = nn.Linear(6, 12), nn.Linear(12, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.down(torch.relu(self.up(x)))
        logits: Tensor = self.head(torch.relu(self.middle(x)))
        return logits


X, Y = torch.randn(32, 4, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 3


def problem() -> Lagrangian:
    torch.manual_seed(0)
    return Lagrangian(prepare(Residual(), X, bits=2), F.cross_entropy).eval()


def test_a_budget_that_only_a_dropped_branch_meets() -> None:
    plan = allocate(problem(), [(X, Y)], "0.5 bits", bits=[0, 1, 2, 4])
    assert {layer: str(it) for layer, it in plan.precisions.items()}["down"] == "0"
    assert plan.precisions["up"] == DROPPED
    smaller = problem().under_plan(plan)
    assert smaller.net.plans["mixed"].dropped_layers == ["up", "down"]
    with pytest.raises(InputError, match=r"no plan fits into 0\.5 bits"):
        allocate(problem(), [(X, Y)], "0.5 bits", bits=[1, 2, 4])


def test_a_layer_that_is_needed_is_never_dropped() -> None:
    for by in sorted(RANKINGS):
        costs = allocate(problem(), [(X, Y)], "8 bits", bits=[0, 2, 8], by=by).offer.costs
        assert costs
        assert all((DROPPED in of_layer) is (layer == "down") for layer, of_layer in costs.items())


def test_the_cost_of_dropping_is_what_the_loss_rises_by() -> None:
    """Against the plan as it is, whose cost is that of the layers that are dropped with it too."""
    each = problem()
    offered = allocate(each, [(X, Y)], "8 bits", bits=[0, 1, 2, 4]).offer
    own = dict(offered.before)
    dropped = {**own, "up": DROPPED, "down": DROPPED}
    rises = loss_under(each, BitPlan("mixed", dropped), [(X, Y)]) - loss_under(each, BitPlan("mixed", own), [(X, Y)])
    costs = [plan_cost(offered.costs, plan, offered.branches) for plan in (dropped, own)]
    assert costs[0] - costs[1] == pytest.approx(rises, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pin": {"middle": 0}}, "the pin gives 'middle' 0 bits, which only the last layer of a residual branch"),
        ({"pin": {"up": 0}}, "the pin gives 'up' 0 bits, .* those are down"),
        ({"pin": {"down": 0, "up": 4}}, "'down' is pinned to 0 bits, but 'up', which only feeds it, is kept"),
        ({"pin": {"down": 0}, "exclude": ["up"]}, "'down' is pinned to 0 bits, but 'up', which only feeds it, is kept"),
        ({"bits": [0]}, "can't be dropped: name other precisions"),
    ],
)
def test_0_bits_elsewhere_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        allocate(problem(), [(X, Y)], "4 bits", **{"bits": [0, 2, 4], **options})  # type: ignore[arg-type]


def test_a_branch_with_a_layer_that_is_kept_stays() -> None:
    for options in ({"pin": {"up": 4}}, {"exclude": ["up"]}):
        plan = allocate(problem(), [(X, Y)], "8 bits", bits=[0, 2, 4], **options)
        assert DROPPED not in plan.offer.costs["down"]


def test_a_pinned_branch_is_dropped_and_stays_so() -> None:
    plan = allocate(problem(), [(X, Y)], "4 bits", bits=[2, 4], pin={"down": 0})
    assert plan.precisions["up"] == plan.precisions["down"] == DROPPED
    again = allocate(problem().under_plan(plan), [(X, Y)], "8 bits", bits=[2, 4, 8])
    assert again.precisions["up"] == again.precisions["down"] == DROPPED
    assert again.solution.used.amounts[0].number < 8


def test_a_layer_that_was_dropped_does_not_come_back() -> None:
    """Norms of its branch have seen nothing since."""
    without = problem().under_plan(BitPlan("mixed", {"up": DROPPED, "down": DROPPED}))
    with pytest.raises(InputError, match="gives 'up' bits, which the network's own plan has dropped"):
        without.under_plan(BitPlan("mixed", {"up": Precision(4, 4), "down": Precision(4, 4)}))


def test_a_layer_in_low_precision_is_left() -> None:
    """The branch is all that is low: to drop it would be measured as full precision."""
    alone = problem().under_plan(BitPlan("mixed", {"middle": FULL}))
    plan = allocate(alone, [(X, Y)], "2 bits", bits=[0, 2, 4], exclude=["middle"])
    assert all(DROPPED not in of_layer for of_layer in plan.offer.costs.values())
    with pytest.raises(InputError, match="'down' is pinned to 0 bits, but no layer is left in low precision"):
        allocate(alone, [(X, Y)], "2 bits", bits=[2, 4], pin={"down": 0}, exclude=["middle"])


def test_the_frontier_reaches_below_what_drops_nothing() -> None:
    each = problem()
    offered = allocate(each, [(X, Y)], "8 bits", bits=[0, 1, 2, 4]).offer
    points = frontier(each, offered, [(X, Y)], [(X, Y)])
    assert points[0].average_bits < 1
    assert points[0].solution.precisions["down"] == DROPPED
    assert points[-1].solution.cost == min(point.solution.cost for point in points)
