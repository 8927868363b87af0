"""Costs fitted to measured plans: weights that are known are found, and random plans fill the budget."""

import random

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from pdqat import Lagrangian, prepare
from pdqat.allocation.allocate import Allocation
from pdqat.allocation.budget import Amount, Budget, Unit
from pdqat.allocation.calibration import calibrated, combined, fitted_weights, random_plan
from pdqat.allocation.joint import plan_cost
from pdqat.allocation.offer import Offer
from pdqat.allocation.program import cheapest_plan
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize
from pdqat.precision import DROPPED, Precision

BITS = [Precision(bits, bits) for bits in (1, 2, 4, 8)]
sizes_of_layers = st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 5000)), min_size=1, max_size=6)


def named(sizes: list[tuple[int, int]]) -> dict[str, LayerSize]:
    return {f"layer{number}": LayerSize(*size) for number, size in enumerate(sizes)}


def drawn_costs(seed: int, layers: dict[str, LayerSize]) -> dict[str, dict[Precision, float]]:
    draw = random.Random(seed)
    return {layer: {it: draw.random() for it in BITS} for layer in layers}


@given(sizes_of_layers, st.floats(1.0, 8.0), st.floats(1.0, 64.0), st.integers(0, 1000))
def test_a_random_plan_fits_and_no_layer_can_have_more(
    given_sizes: list[tuple[int, int]], bits: float, bops: float, seed: int
) -> None:
    sizes = named(given_sizes)
    operations = bops * sum(size.operations for size in sizes.values())
    budget = Budget((Amount(Unit.BITS, bits), Amount(Unit.BOPS, operations)))
    before = dict.fromkeys(sizes, BITS[1])
    offered = Offer("loss", {}, drawn_costs(seed, sizes), sizes, before, [])
    plan = random_plan(offered, budget, random.Random(seed))
    for amount, used in zip(budget.amounts, budget.used_by(plan, sizes).amounts, strict=True):
        assert used.number <= amount.number * (1 + 1e-6)
    for layer in plan:
        larger = (it for it in BITS if (it.weight or 0) > (plan[layer].weight or 0))
        for more in larger:
            uses = zip(budget.amounts, budget.used_by({**plan, layer: more}, sizes).amounts, strict=True)
            assert any(used.number > amount.number * (1 - 1e-6) for amount, used in uses)


@given(st.integers(0, 1000), st.floats(0.05, 8.0))
def test_a_random_plan_drops_branches_whole(seed: int, bits: float) -> None:
    sizes = named([(100, 1), (200, 1), (300, 1), (400, 1)])
    costs = drawn_costs(seed, sizes)
    costs["layer1"][DROPPED] = costs["layer3"][DROPPED] = 1.0
    branches = {"layer1": ["layer0"], "layer3": ["layer2"]}
    offered = Offer("loss", {}, costs, sizes, dict.fromkeys(sizes, BITS[1]), [], branches)
    plan = random_plan(offered, Budget.of(Unit.BITS, bits), random.Random(seed))
    for last, feeding in branches.items():
        assert all(plan[layer].is_dropped is plan[last].is_dropped for layer in feeding)
    (used,) = Budget.of(Unit.BITS, bits).used_by(plan, sizes).amounts
    assert used.number <= bits * (1 + 1e-6)
    assert plan_cost(costs, plan) >= 0


@given(st.integers(0, 1000), st.lists(st.floats(0.0, 10.0), min_size=1, max_size=3), st.floats(-5, 5))
def test_weights_that_made_the_losses_are_found(seed: int, weights: list[float], offset: float) -> None:
    sizes = named([(1, 1)] * 8)
    predictions = {str(number): drawn_costs(seed + 7 * number, sizes) for number in range(len(weights))}
    draw = random.Random(seed)
    plans = [{layer: draw.choice(BITS) for layer in sizes} for _ in range(20)]
    losses = [
        offset + sum(weight * plan_cost(predictions[str(n)], plan) for n, weight in enumerate(weights))
        for plan in plans
    ]
    found = fitted_weights(predictions, plans, losses)
    assert list(found.values()) == pytest.approx(weights, abs=1e-6)


@given(st.integers(0, 1000))
def test_the_sum_of_predictions_costs_what_they_cost_together(seed: int) -> None:
    sizes = named([(1, 1)] * 4)
    one, other = drawn_costs(seed, sizes), drawn_costs(seed + 1, sizes)
    plan = cheapest_plan(one, sizes, Budget.parse("3 bits")).precisions
    both = combined({"one": one, "other": other}, {"one": 2.0, "other": 0.5})
    assert plan_cost(both, plan) == pytest.approx(2 * plan_cost(one, plan) + 0.5 * plan_cost(other, plan))


def test_a_problem_is_calibrated_and_solved() -> None:
    torch.manual_seed(0)
    x, y = torch.rand(32, 6), torch.arange(32) % 3
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 3))
    problem = Lagrangian(prepare(model, x, bits=2), F.cross_entropy)
    budget = Budget.parse("3 bits")
    offered = calibrated(problem, [(x, y)], [budget], 6, bits=[1, 2, 4])
    assert offered.by.endswith("fitted to 6 measured plans")
    used = Allocation.within(budget, offered).solution.used
    assert used.amounts[0].number <= 3


def test_one_plan_is_too_few() -> None:
    with pytest.raises(InputError, match="a fit needs at least 2 plans"):
        fitted_weights({}, [{}], [1.0])
