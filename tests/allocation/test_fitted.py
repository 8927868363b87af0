"""Costs that fit measured losses: sums that made the losses are found again, with dropped branches too."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdqat.allocation.fitted import Trial, fitted
from pdqat.allocation.joint import Branches, plan_cost
from pdqat.errors import InputError
from pdqat.precision import DROPPED, Precision

ONE, TWO, EIGHT = (Precision(bits, bits) for bits in (1, 2, 8))
LAYERS = ("a", "b", "c")
BRANCHES: list[Branches] = [{}, {"b": ["a"]}, {"b": ["a"], "c": ["a", "b"]}]


def every_plan(choices: dict[str, list[Precision]], branches: Branches) -> list[dict[str, Precision]]:
    """A branch is dropped whole, or its layers have one of their choices."""
    plans = []
    for row in itertools.product(*choices.values()):
        plan = dict(zip(choices, row, strict=True))
        for last in sorted(branches, key=lambda it: len(branches[it])):
            if plan[last].is_dropped:
                plan |= dict.fromkeys(branches[last], DROPPED)
        if plan not in plans:
            plans.append(plan)
    return plans


def trials_of(
    plans: list[dict[str, Precision]], start: dict[str, Precision], costs: dict[str, dict[Precision, float]]
) -> list[Trial]:
    """What a loss that really is a sum would give; layers that are dropped with others cost nothing."""
    trials = []
    for plan in plans:
        counts = {layer for layer, it in plan.items() if it in costs[layer]}
        inside = {"a"} if plan["c"].is_dropped or plan["b"].is_dropped else set()
        counts -= inside | ({"b"} if plan["c"].is_dropped else set())
        changed = {layer: it for layer, it in plan.items() if it != start[layer]}
        trials.append(Trial(changed, 1.0 + sum(costs[layer][plan[layer]] for layer in counts)))
    return trials


@given(st.sampled_from(BRANCHES), st.integers(0, 10**6), st.booleans())
def test_a_sum_is_found_again(branches: Branches, seed: int, one_at_a_time: bool) -> None:
    draw = random.Random(seed)
    choices = {layer: [ONE, TWO, EIGHT, *[DROPPED] * (layer in branches)] for layer in LAYERS}
    costs = {layer: {it: draw.uniform(-1, 1) for it in row} for layer, row in choices.items()}
    start = dict.fromkeys(LAYERS, TWO)
    plans = every_plan(choices, branches)
    every = trials_of(plans, start, costs)
    single = [trial for trial in every if _is_single(trial, branches)]
    found = fitted(choices, branches, start, single if one_at_a_time else every)
    assert {layer: list(row) for layer, row in found.items()} == choices
    assert all(cost >= 0 for row in found.values() for cost in row.values())
    assert all(min(found[layer].values()) == 0 for layer in LAYERS)
    over = [trial.loss - plan_cost(found, plan, branches) for plan, trial in zip(plans, every, strict=True)]
    assert over == pytest.approx([over[0]] * len(over), abs=1e-9), "losses but for one number"


def _is_single(trial: Trial, branches: Branches) -> bool:
    """Whether one layer changes, or one branch is dropped."""
    dropped = {layer for layer, it in trial.changed.items() if it.is_dropped}
    branch = any(set(trial.changed) == dropped == {last, *branches[last]} for last in branches)
    return branch or len(trial.changed) <= 1


def test_what_does_not_add_up_is_shared() -> None:
    """Each alone costs 1, both 4: the sum is raised, and less is left of the difference."""
    choices, start = {"a": [ONE, TWO], "b": [ONE, TWO]}, {"a": TWO, "b": TWO}
    alone = [Trial({}, 0.0), Trial({"a": ONE}, 1.0), Trial({"b": ONE}, 1.0)]
    together = Trial({"a": ONE, "b": ONE}, 4.0)
    found = fitted(choices, {}, start, [*alone, together])
    assert found["a"][ONE] == pytest.approx(2.0)
    assert found["b"][ONE] == pytest.approx(2.0)
    assert found["a"][TWO] == found["b"][TWO] == 0


@pytest.mark.parametrize(
    ("changed", "words"), [({}, "with the plan as it is the loss is nan"), ({"a": ONE}, "with a at 1 bits the loss is")]
)
def test_a_loss_that_is_no_number_is_refused(changed: dict[str, Precision], words: str) -> None:
    with pytest.raises(InputError, match=words):
        fitted({"a": [ONE, TWO]}, {}, {"a": TWO}, [Trial(changed, float("nan"))])
