"""The integer program against brute force, and what must hold for every plan."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdqat.allocation.budget import Amount, Budget, Unit
from pdqat.allocation.program import cheapest_plan
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize
from pdqat.precision import Precision

BITS = [Precision(bits, bits) for bits in (1, 2, 4, 8)]
SIZES = {"a": LayerSize(100, 1000), "b": LayerSize(300, 50), "c": LayerSize(10, 10)}
COSTS = {
    "a": dict(zip(BITS, (8.0, 4.0, 1.0, 0.0), strict=True)),
    "b": dict(zip(BITS, (2.0, 1.0, 0.5, 0.0), strict=True)),
    "c": dict(zip(BITS, (5.0, 5.0, 0.1, 0.0), strict=True)),
}

size = st.integers(1, 5000) | st.integers(1, 10**7)
costs = st.lists(
    st.tuples(size, size, st.lists(st.integers(0, 50), min_size=4, max_size=4)),
    min_size=1,
    max_size=5,
)


def problem(rows: list[tuple[int, int, list[int]]]) -> tuple[dict[str, dict[Precision, float]], dict[str, LayerSize]]:
    names = [f"layer{number}" for number in range(len(rows))]
    return (
        {
            name: dict(zip(BITS, sorted(map(float, row[2]), reverse=True), strict=True))
            for name, row in zip(names, rows, strict=True)
        },
        {name: LayerSize(row[0], row[1]) for name, row in zip(names, rows, strict=True)},
    )


def brute_force(
    table: dict[str, dict[Precision, float]], sizes: dict[str, LayerSize], amount: Amount
) -> list[tuple[float, float]]:
    """Cost and use of every plan."""
    plans = []
    for choice in itertools.product(*table.values()):
        pairs = list(zip(table, choice, strict=True))
        cost = sum(table[layer][precision] for layer, precision in pairs)
        plans.append((cost, sum(amount.used_by(sizes[layer], precision) for layer, precision in pairs)))
    return plans


@given(costs, st.sampled_from(list(Unit)), st.floats(0.0, 1.1))
def test_the_plan_is_the_cheapest_that_fits(rows: list[tuple[int, int, list[int]]], unit: Unit, part: float) -> None:
    table, sizes = problem(rows)
    every = brute_force(table, sizes, Amount(unit, 1.0))
    least, most = min(used for _, used in every), max(used for _, used in every)
    limit = least + part * (most - least)
    allowed = Amount(unit, 1.0).of_sum(limit, sizes)
    solution = cheapest_plan(table, sizes, Budget((allowed,)))
    fitting = [(cost, used) for cost, used in every if used <= limit * (1 + 1e-9)]
    assert solution.cost == pytest.approx(min(fitting)[0], abs=1e-9)
    assert solution.used.amounts[0].number <= allowed.number * (1 + 1e-8)
    better = [(used, cost) for cost, used in every if cost < solution.cost - 1e-9]
    if better:
        assert solution.next_budget is not None
        assert solution.next_cost is not None
        assert solution.next_cost < solution.cost
        assert solution.next_budget.amounts[0].limit(sizes) == pytest.approx(min(better)[0])
    else:
        assert solution.next_budget is None


W_AND_A = [Precision(weight, activation) for weight, activation in ((1, 1), (1, 8), (8, 1), (4, 4))]
"""Of these the smallest in bytes is not the smallest in operations."""


@given(costs, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_under_two_budgets_the_plan_is_the_cheapest_that_fits_into_both(
    rows: list[tuple[int, int, list[int]]], part_of_bytes: float, part_of_operations: float
) -> None:
    table, sizes = problem(rows)
    table = {
        layer: dict(zip(W_AND_A, row[2], strict=True)) for layer, row in zip(table, rows, strict=True)
    }  # in any order of costs
    plans = []
    for choice in itertools.product(*table.values()):
        precisions = dict(zip(table, choice, strict=True))
        used = Budget.parse("1 byte and 1 bops").used_by(precisions, sizes)
        plans.append((sum(table[it][precisions[it]] for it in table), *(amount.number for amount in used.amounts)))
    limits = [
        min(plan[unit] for plan in plans) * (1 - part) + max(plan[unit] for plan in plans) * part
        for unit, part in ((1, part_of_bytes), (2, part_of_operations))
    ]
    budget = Budget((Amount(Unit.BYTES, limits[0]), Amount(Unit.BOPS, limits[1])))
    part = {plan: max(plan[1] / limits[0], plan[2] / limits[1]) for plan in plans}
    fitting = [plan for plan in plans if part[plan] <= 1 + 1e-9]
    if not fitting:
        with pytest.raises(InputError, match=r"no plan fits into .* and .*: the smallest possible one takes"):
            cheapest_plan(table, sizes, budget)
        return
    solution = cheapest_plan(table, sizes, budget)
    assert solution.cost == pytest.approx(min(fitting)[0], abs=1e-9)
    for taken, limit in zip(solution.used.amounts, limits, strict=True):
        assert taken.number <= limit * (1 + 1e-8)
    better = [part[plan] for plan in plans if plan[0] < solution.cost - 1e-9]
    assert (solution.next_budget is None) == (not better)
    if solution.next_budget is not None:
        amounts = zip(solution.next_budget.amounts, limits, strict=True)
        assert max(amount.number / limit for amount, limit in amounts) == pytest.approx(min(better), rel=1e-3)


@given(st.integers(0, 10**6), st.floats(1.2, 7.5))
def test_no_change_of_two_layers_makes_a_large_plan_cheaper(seed: int, bits: float) -> None:
    """Forty layers are too many to try all plans, but the best one is the best of its neighbours."""
    random = np.random.default_rng(seed)
    sizes = {f"layer{number}": LayerSize(int(random.choice([432, 2304, 9216, 36864])), 1) for number in range(40)}
    table = {
        layer: {precision: float(price * 4.0**-precision.weight) for precision in BITS if precision.weight}
        for layer, price in zip(sizes, random.lognormal(0, 1.5, len(sizes)), strict=True)
    }
    allowed = Amount(Unit.BITS, bits)
    solution = cheapest_plan(table, sizes, Budget((allowed,)))
    room = allowed.limit(sizes) - sum(allowed.used_by(size, solution.precisions[it]) for it, size in sizes.items())
    changes = [
        [
            (
                table[layer][new] - table[layer][old],
                allowed.used_by(sizes[layer], new) - allowed.used_by(sizes[layer], old),
            )
            for new in BITS
        ]
        for layer, old in solution.precisions.items()
    ]
    for one, other in itertools.combinations(changes, 2):
        for (cost, used), (other_cost, other_used) in itertools.product(one, other):
            assert used + other_used > room or cost + other_cost >= -1e-9 * solution.cost


@given(costs, st.floats(1.0, 8.0), st.floats(1.0, 8.0))
def test_more_budget_never_costs_more(rows: list[tuple[int, int, list[int]]], one: float, other: float) -> None:
    table, sizes = problem(rows)
    small, large = (cheapest_plan(table, sizes, Budget.of(Unit.BITS, bits)) for bits in sorted((one, other)))
    assert large.cost <= small.cost + 1e-9


def test_costs_of_very_different_size_are_still_told_apart() -> None:
    names = [f"layer{number}" for number in range(6)]
    table = {
        name: dict(zip(BITS, (4.0, 1e-2, (3 + n) * 1e-6, (1 + n) * 1e-7), strict=True)) for n, name in enumerate(names)
    }
    sizes = {name: LayerSize(100 + 17 * number, 1) for number, name in enumerate(names)}
    every = brute_force(table, sizes, Amount(Unit.BITS, 1.0))
    for bits in (3.9, 4.5, 5.1, 6.3, 7.2, 7.9):
        allowed = Amount(Unit.BITS, bits)
        cheapest = min(cost for cost, used in every if used <= allowed.limit(sizes))
        assert cheapest_plan(table, sizes, Budget((allowed,))).cost == pytest.approx(cheapest, rel=1e-3)


@pytest.mark.parametrize("unit", list(Unit))
def test_the_smallest_budget_is_enough_whatever_the_sizes(unit: Unit) -> None:
    sizes = {"large": LayerSize(10_000_000, 400_000_000), "tiny": LayerSize(5, 100)}
    table = dict.fromkeys(sizes, COSTS["a"])
    smallest = Budget.of(unit, 1.0).used_by(dict.fromkeys(sizes, BITS[0]), sizes)
    solution = cheapest_plan(table, sizes, smallest)
    assert solution.precisions == dict.fromkeys(sizes, BITS[0])


def test_layers_without_costs_do_not_count() -> None:
    with pytest.raises(InputError, match="the smallest possible one takes 1 bits"):
        cheapest_plan({"c": COSTS["c"]}, SIZES, Budget.parse("0.9 bits"))


def test_of_plans_that_cost_the_same_the_smaller_one_is_taken() -> None:
    solution = cheapest_plan({"c": COSTS["c"] | {BITS[3]: 0.1}}, SIZES, Budget.parse("8 bits"))
    assert solution.precisions == {"c": BITS[2]}


def test_bits_go_where_they_save_most() -> None:
    solution = cheapest_plan(COSTS, SIZES, Budget.parse("2 bits"))
    assert solution.precisions == {"a": BITS[2], "b": BITS[0], "c": BITS[3]}
    assert solution.cost == pytest.approx(1.0 + 2.0)


def test_a_pinned_layer_keeps_its_precision() -> None:
    pinned = COSTS | {"a": {BITS[3]: 0.0}}
    assert cheapest_plan(pinned, SIZES, Budget.parse("3 bits")).precisions["a"] == BITS[3]


def test_too_small_a_budget_names_the_smallest_possible() -> None:
    with pytest.raises(InputError, match=r"no plan fits into 0.5 bits: the smallest possible one takes 1 bits"):
        cheapest_plan(COSTS, SIZES, Budget.parse("0.5 bits"))


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
def test_a_cost_that_is_none_is_refused(cost: float) -> None:
    with pytest.raises(InputError, match="the cost of 'a' at 1 bits is"):
        cheapest_plan({"a": {BITS[0]: cost}}, SIZES, Budget.parse("8 bits"))
