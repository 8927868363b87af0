"""Measuring decides: within the budget, never worse than what was measured before, and the same every time."""

import itertools
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pdqat import Lagrangian, allocate
from pdqat.allocation.allocate import Allocation
from pdqat.allocation.budget import Amount, Budget, Unit, plan_uses
from pdqat.allocation.fitted import Trial, fitted
from pdqat.allocation.frontier import frontier
from pdqat.allocation.joint import Branches
from pdqat.allocation.offer import Offer, offer
from pdqat.allocation.program import cheapest_plan
from pdqat.allocation.proposals import MOST, Chosen, choose, measuring
from pdqat.errors import InputError
from pdqat.layers.sizes import LayerSize
from pdqat.precision import DROPPED, FULL, MIXED, BitPlan, Precision
from pdqat.sensitivity import held_out
from pdqat.sensitivity.trials import loss_under
from small_problems import same_state, small, state

BITS = [Precision(bits, bits) for bits in (1, 2, 4, 8)]
LAYERS = ("a", "b", "c", "d")
BRANCHES: list[Branches] = [{}, {"b": ["a"]}, {"b": ["a"], "c": ["a", "b"]}]


class Losses:
    """By plan: a sum, and what layers add together, drawn once for each pair of options. It notes what is asked."""

    def __init__(self, seed: int, together: float) -> None:
        self._seed, self._together = seed, together
        self.asked: list[dict[str, Precision]] = []

    def __call__(self, plan: Mapping[str, Precision]) -> float:
        self.asked.append(dict(plan))
        alone = sum(self._drawn(*option) / (1 + (option[1].weight or 0)) for option in plan.items())
        pairs = itertools.combinations(plan.items(), 2)
        return alone + self._together * sum(self._drawn(*one, *other) for one, other in pairs)

    def _drawn(self, *what: str | Precision) -> float:
        return random.Random(f"{self._seed} {[str(it) for it in what]}").random()


def offer_by(losses: Losses, seed: int, branches: Branches, pinned: Mapping[str, Precision]) -> Offer:
    """As a problem of such losses would be offered."""
    draw = random.Random(seed)
    sizes = {layer: LayerSize(draw.randint(1, 500), draw.randint(1, 500)) for layer in LAYERS}
    choices = {layer: [*BITS, *[DROPPED] * (layer in branches)] for layer in LAYERS}
    choices |= {layer: [it] for layer, it in pinned.items()}
    before = dict.fromkeys(LAYERS, BITS[1])
    start = {**before, **pinned}
    alone = [Trial({}, losses(start))]
    for layer, row in choices.items():
        for it in row:
            if it != start[layer]:
                changed = {**dict.fromkeys(branches[layer] if it.is_dropped else (), DROPPED), layer: it}
                alone.append(Trial(changed, losses({**start, **changed})))
    losses.asked.clear()
    return Offer("loss", {}, fitted(choices, branches, start, alone), sizes, before, [], branches, alone)


def budget_of(units: str, part: float, sizes: Mapping[str, LayerSize]) -> Budget:
    """A part of what 8 bits take."""
    most = dict.fromkeys(sizes, BITS[-1])
    return Budget(tuple(Amount(Unit(it), part * plan_uses(Unit(it), most, sizes)) for it in units.split(" and ")))


def keeps(budget: Budget, plan: Mapping[str, Precision], sizes: Mapping[str, LayerSize]) -> bool:
    uses = budget.used_by(plan, sizes).amounts
    return all(it.number <= most.number * (1 + 1e-9) for it, most in zip(uses, budget.amounts, strict=True))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(BRANCHES),
    st.sampled_from([{}, {"d": BITS[2]}, {"d": FULL}]),
    st.floats(0.2, 1.0),
    st.sampled_from(["bits", "BOPs", "bytes and BOPs"]),
    st.floats(0, 1),
)
def test_whatever_the_losses_are(
    seed: int, branches: Branches, pinned: dict[str, Precision], part: float, units: str, together: float
) -> None:
    losses = Losses(seed, together)
    offered = offer_by(losses, seed, branches, pinned)
    budget = budget_of(units, part, offered.sizes)
    try:
        first = cheapest_plan(offered.costs, offered.sizes, budget, branches)
    except InputError:  # a pinned layer can take more than all of it
        return
    chosen = choose(offered, budget, losses)
    plan, asked = chosen.solution.precisions, list(losses.asked)
    assert keeps(budget, plan, offered.sizes)
    assert budget.used_by(plan, offered.sizes) == chosen.solution.used
    assert all(plan[layer] == it for layer, it in pinned.items())
    for last in branches:
        if plan[last].is_dropped:
            assert all(plan[layer].is_dropped for layer in branches[last])
    assert all(it in offered.costs[layer] or it.is_dropped for layer, it in plan.items())
    assert chosen.loss is not None
    assert chosen.loss == pytest.approx(losses(plan))
    assert all(chosen.loss <= losses(it) + 1e-12 for it in (first.precisions, *asked))
    assert all(keeps(budget, it, offered.sizes) for it in asked)
    assert len(asked) <= MOST
    assert len({tuple(map(str, it.values())) for it in asked}) == len(asked), "no plan is measured twice"
    again = Losses(seed, together)
    other = choose(offered, budget_of(units, min(1.0, 1.3 * part), offered.sizes), again).offer
    same = choose(other, budget, again)
    assert (same.solution, same.loss, same.proposed) == (chosen.solution, chosen.loss, chosen.proposed)
    assert choose(chosen.offer, budget, refused) == chosen, "what is known is not measured again"


def refused(plan: Mapping[str, Precision]) -> float:
    pytest.fail(f"measured again: {plan}")


@given(st.integers(0, 10**6), st.floats(0.2, 1.0))
def test_where_losses_add_up_the_first_plan_is_it(seed: int, part: float) -> None:
    losses = Losses(seed, together=0.0)
    offered = offer_by(losses, seed, {}, {})
    budget = budget_of("bits", part, offered.sizes)
    chosen = choose(offered, budget, losses)
    assert len(losses.asked) <= 1
    best = min(
        losses(plan)
        for row in itertools.product(BITS, repeat=len(LAYERS))
        if keeps(budget, plan := dict(zip(LAYERS, row, strict=True)), offered.sizes)
    )
    assert chosen.loss == pytest.approx(best)
    assert len(chosen.proposed) == 1


def test_without_a_way_to_measure_the_cheapest_plan_is_chosen() -> None:
    losses = Losses(1, 1.0)
    offered = offer_by(losses, 1, {}, {})
    budget = budget_of("bits", 0.4, offered.sizes)
    cheapest = cheapest_plan(offered.costs, offered.sizes, budget)
    assert choose(offered, budget) == Chosen(cheapest, offered)
    assert choose(replace(offered, alone=[]), budget, refused).solution == cheapest


def judged(
    problem: Lagrangian, plan: Mapping[str, Precision], judges: list[tuple[torch.Tensor, torch.Tensor]]
) -> float:
    return loss_under(problem, BitPlan(MIXED, plan), judges)


@pytest.mark.parametrize("more", [{}, {"pin": {"6": 4}}, {"exclude": ["3"]}, {"bits": ["w2a4", 3, "full"]}])
def test_a_problem_is_planned_for_by_what_its_plans_lose(more: dict[str, object]) -> None:
    made = small()
    before = state(made.problem)
    allocation = allocate(made.problem, made.batches, "14 bits", **more)  # type: ignore[arg-type]
    judges = held_out(made.problem, made.batches, 1000)
    chosen = allocation.chosen
    assert chosen.loss == pytest.approx(judged(made.problem, allocation.precisions, judges))
    offered = offer(made.problem, made.batches, **more)  # type: ignore[arg-type]
    first = cheapest_plan(offered.costs, offered.sizes, allocation.budget)
    assert chosen.proposed[0].loss == pytest.approx(judged(made.problem, offered.plan(first.precisions), judges))
    assert chosen.loss is not None
    assert chosen.loss <= chosen.proposed[0].loss
    assert same_state(state(made.problem), before)
    assert allocate(made.problem, made.batches, "14 bits", **more).chosen == chosen  # type: ignore[arg-type]
    said = str(allocation)
    assert "without training, using" in said
    assert "measured; the first, by single layers alone, has the loss" in said


def test_another_budget_is_chosen_for_as_if_it_were_the_first() -> None:
    made = small()
    both = allocate(made.problem, made.batches, "2 bits and 3 KB").again("3 bits and 3 KB")
    anew = allocate(made.problem, made.batches, "3 bits and 3 KB")
    assert (both.precisions, both.chosen.loss) == (anew.precisions, anew.chosen.loss)
    assert Allocation.within("3 bits and 3 KB", both.offer, refused).precisions == anew.precisions


def test_other_rankings_measure_no_plan() -> None:
    made = small()
    allocation = allocate(made.problem, made.batches, "3 bits", by="dual")
    assert allocation.chosen.loss is None
    assert not allocation.chosen.proposed
    assert "predicted cost" in str(allocation)


def test_the_curve_has_the_plans_of_single_budgets() -> None:
    made = small()
    offered = offer(made.problem, made.batches)
    judges = held_out(made.problem, made.batches, 1000)
    points = frontier(made.problem, offered, judges, judges)
    bits = [point.average_bits for point in points]
    assert bits == sorted(set(bits))
    largest = choose(offered, Budget.parse("8 bits"), measuring(made.problem, judges))
    assert points[-1].solution == largest.solution
