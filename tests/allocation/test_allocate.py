"""`allocate` on problems of any kind: what plans cost, that budgets are met exactly, and what comes back."""

import itertools
import math

import pytest
import torch

from pdqat import FULL, Lagrangian, LayerConstraint, OutputConstraint, Precision, allocate, evaluate
from pdqat.allocation.budget import FULL_BITS, Budget, Unit
from pdqat.allocation.offer import Offer, offer
from pdqat.allocation.program import cheapest_plan
from pdqat.errors import InputError
from pdqat.layers.sizes import layer_sizes
from pdqat.sensitivity import RANKINGS
from pdqat.sensitivity.probe import candidate_distances
from small_problems import Small, same_state, small, state, task_problem


def used(problem: Lagrangian, precisions: dict[str, Precision], unit: Unit) -> float:
    """By the equations of budgets."""
    sizes = layer_sizes(problem.net)
    weights = sum(sizes[layer].parameters * (bits.weight or FULL_BITS) for layer, bits in precisions.items())
    if unit is Unit.BOPS:
        return float(
            sum(
                sizes[layer].operations * (bits.weight or FULL_BITS) * (bits.activation or FULL_BITS)
                for layer, bits in precisions.items()
            )
        )
    return weights / 8 if unit is Unit.BYTES else weights / sum(sizes[layer].parameters for layer in precisions)


def brute_force(problem: Lagrangian, offered: Offer, unit: Unit) -> list[tuple[float, float]]:
    """Cost and use of every plan that can be made of the offered precisions."""
    plans = []
    for precisions in itertools.product(*offered.costs.values()):
        plan = dict(zip(offered.costs, precisions, strict=True))
        cost = sum(offered.costs[layer][precision] for layer, precision in plan.items())
        plans.append((cost, used(problem, plan, unit)))
    return plans


@pytest.mark.parametrize(
    ("kind", "unit", "by"),
    [
        ("perceptron", Unit.BITS, "dual"),
        ("signal", Unit.BYTES, "distance"),
        ("regression", Unit.BOPS, "gradient"),
        ("tuple of inputs", Unit.BITS, "only-low"),
        ("inputs by name", Unit.BYTES, "dual"),
        ("perceptron", Unit.BOPS, "random"),
    ],
)
def test_a_plan_is_the_cheapest_within_its_budget(kind: str, unit: Unit, by: str) -> None:
    made = small(kind)
    offered = offer(made.problem, made.batches, by=by)
    plans = brute_force(made.problem, offered, unit)
    assert len(plans) == 4**3
    amounts = sorted({amount for _, amount in plans})
    for amount in (amounts[0], amounts[len(amounts) // 3], amounts[-1]):
        solution = cheapest_plan(offered.costs, offered.sizes, Budget.of(unit, amount * (1 + 1e-6)))
        fitting = [cost for cost, other in plans if other <= amount * (1 + 1e-6)]
        assert solution.cost == pytest.approx(min(fitting), rel=1e-6)
        assert used(made.problem, solution.precisions, unit) == pytest.approx(solution.used.amounts[0].number)
        assert solution.used.amounts[0].number <= amount * (1 + 1e-6)
    allocation = allocate(made.problem, made.batches, Budget.of(unit, amounts[-1]), by=by)
    assert allocation.offer.costs == offered.costs
    assert allocation.precisions == solution.precisions
    assert list(allocation.precisions) == list(made.problem.net.layers)


@pytest.mark.parametrize("by", RANKINGS)
def test_every_ranking_sets_prices(by: str) -> None:
    made = small()
    before = state(made.problem)
    allocation = allocate(made.problem, made.batches, "3 bits", by=by)
    assert allocation.offer.by == by
    assert all(math.isfinite(cost) for costs in allocation.offer.costs.values() for cost in costs.values())
    assert used(made.problem, dict(allocation.precisions), Unit.BITS) <= 3 * (1 + 1e-9)
    assert same_state(state(made.problem), before)


@pytest.mark.parametrize("quantizer", ["dorefa", "uniform", "uniform-channel", "lsq"])
def test_costs_are_finite_and_fall_with_bits_whatever_the_quantiser(quantizer: str) -> None:
    made = small(quantizer=quantizer, gradient="straight-through")
    allocation = allocate(made.problem, made.batches, "4.5 bits", by="dual", bits=[2, 4, 8])
    for costs in allocation.offer.costs.values():
        values = [costs[Precision(bits, bits)] for bits in (2, 4, 8)]
        assert math.inf > values[0] > values[1] > values[2] > 0
    plans = brute_force(made.problem, allocation.offer, Unit.BITS)
    assert allocation.solution.cost == pytest.approx(min(cost for cost, bits in plans if bits <= 4.5))
    other = made.problem.under_plan(allocation)
    assert other.net.plans["mixed"].precisions == allocation.precisions
    scores = evaluate(other, made.batches).scores
    assert list(scores) == ["full", "mixed"]
    assert all(math.isfinite(score) for score in scores.values())


def test_a_cost_is_the_price_times_the_distance() -> None:
    made = small()
    offered = offer(made.problem, made.batches, by="dual", bits=[2, "w4a8", "full"])
    tried = [Precision(2, 2), Precision(4, 8)]
    distances = candidate_distances(made.problem, list(made.batches), tried)
    for bound in made.problem.bounds[1:]:
        multiplier = float(made.problem.duals.named()[bound.name])
        for precision in tried:
            expected = multiplier * distances[bound.where][precision]
            assert offered.costs[bound.where][precision] == pytest.approx(expected)
        assert offered.costs[bound.where][FULL] == 0


def test_a_plan_is_taken_up_with_weights_norms_and_multipliers() -> None:
    made = small()
    before = state(made.problem)
    allocation = allocate(made.problem, made.batches, "5 bits", by="dual", pin={"3": 8})
    other = made.problem.under_plan(allocation)
    assert same_state(state(made.problem), before)
    assert torch.equal(other.duals.multipliers, made.problem.duals.multipliers)
    old, new = made.problem.net.state_dict(), other.net.state_dict()
    assert new.keys() == {key.replace("2-bit", "mixed") for key in old}
    assert all(torch.equal(value, new[key.replace("2-bit", "mixed")]) for key, value in old.items())
    assert other.bounds[0].tolerance == made.problem.bounds[0].tolerance, "what the model is for stays"
    assert [bound.tolerance for bound in other.bounds[1:]] == pytest.approx(
        [1 / (2 ** (allocation.precisions[bound.where].weight or 0) - 1) ** 2 for bound in other.bounds[1:]]
    )


def test_pinned_layers_keep_what_they_are_given() -> None:
    made = small()
    plan = allocate(
        made.problem, made.batches, "30 bits", by="dual", bits=[1, 2], pin={"[36]": 8, "6": "full"}
    ).precisions
    assert (plan["3"], plan["6"]) == (Precision(8, 8), FULL)
    assert plan["9"] in (Precision(1, 1), Precision(2, 2))


def test_excluded_layers_stay_in_full_precision_and_are_not_counted() -> None:
    made = small()
    allocation = allocate(made.problem, made.batches, "1.5 bits", by="dual", exclude=["3"])
    rest = {layer: bits for layer, bits in allocation.precisions.items() if layer != "3"}
    assert allocation.precisions["3"] == FULL
    assert 1 <= used(made.problem, rest, Unit.BITS) == allocation.solution.used.amounts[0].number <= 1.5
    assert list(made.problem.under_plan(allocation).duals.named()) == ["mixed/output", "mixed/layer/6", "mixed/layer/9"]


def test_a_layer_that_the_plan_has_in_full_precision_stays_there_and_counts() -> None:
    made = small(bits=2, layers={"12": 2})  # the last layer is in the plan too
    kept = made.problem.under_plan(
        allocate(made.problem, made.batches, "30 bits", by="dual", bits=[2], pin={"3": "full"})
    )
    assert kept.net.plans["mixed"]["3"] == FULL
    again = allocate(kept, made.batches, "14 bits", by="dual", bits=[1, 2])
    assert again.precisions["3"] == FULL
    assert used(made.problem, dict(again.precisions), Unit.BITS) <= 14
    with pytest.raises(InputError, match="no plan fits into 2 bits"):
        allocate(kept, made.batches, "2 bits", by="dual", bits=[1, 2])


def test_a_layer_with_quantised_activations_alone_has_no_multiplier_and_keeps_them() -> None:
    made = small(layers={"6": "a8"})
    allocation = allocate(made.problem, made.batches, "20 bits", by="dual")
    assert allocation.precisions["6"] == Precision(None, 8)
    assert allocation.offer.costs["6"] == {Precision(None, 8): 0.0}


def test_straight_through_training_alone_is_planned_for_by_distances() -> None:
    problem, batches = task_problem(), small().batches
    allocation = allocate(problem, batches, "2.5 bits", by="distance")
    assert problem.under_plan(allocation).net.plans["mixed"].precisions == allocation.precisions


def test_without_any_multiplier_above_zero_distances_decide_and_it_is_said() -> None:
    made = small()
    made.problem.duals.multipliers.zero_()
    allocation = allocate(made.problem, made.batches, "3 bits", by="dual", bits=[2, 4, 8])
    assert "no multiplier is above 0: all layers have the same price, and distances decide" in str(allocation)
    made.problem.duals.multipliers.fill_(0.3)
    alike = allocate(made.problem, made.batches, "3 bits", by="dual", bits=[2, 4, 8])
    assert "no multiplier" not in str(alike)
    assert alike.precisions == allocation.precisions


def test_a_layer_whose_multiplier_is_zero_still_has_a_price() -> None:
    made = small()
    made.problem.duals.multipliers[1] = 0
    costs = offer(made.problem, made.batches, by="dual").costs["3"]
    assert all(cost > 0 for cost in costs.values())


@pytest.fixture(scope="module")
def made() -> Small:
    return small(constraints=[OutputConstraint(), LayerConstraint()])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"budget": "lots"}, "a budget is an amount above 0 with a unit"),
        ({"budget": "0.9 bits"}, "no plan fits into 0.9 bits: the smallest possible one takes 1 bits"),
        ({"pin": {"nothing": 2}}, "the pinned layer 'nothing' matches no layer; the layers are 3, 6, 9"),
        ({"bits": [9]}, "bits must be from 1 to 8, not 9"),
        ({"bits": []}, "there must be at least one precision to choose from, such as 1, 2, 4, 8"),
        ({"exclude": ["nothing"]}, "the excluded layer 'nothing' matches no layer"),
        (
            {"exclude": ["3"], "pin": {"3": 8}},
            "outside the excluded layers the pinned layer '3' matches no layer; the layers are 6, 9",
        ),
        ({"exclude": ["*"]}, "all layers are excluded: there is none to choose a precision for"),
        ({"by": "taste"}, "unknown ranking 'taste'; choose one of dual, hessian"),
        ({"exclude": "3"}, "exclude is a list of names or patterns, such as ['head'], not '3'"),
        ({"exclude": 3}, "exclude is a list of names or patterns, such as ['head'], not 3"),
        ({"pin": "3=8"}, "pin holds precisions by name or pattern, such as {'head': 8}, not '3=8'"),
        ({"samples": 0}, "samples must be a whole number from 1 upwards, not 0"),
    ],
)
def test_what_can_not_be_planned_is_said_in_one_sentence(
    made: Small, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InputError) as refused:
        allocate(made.problem, made.batches, **{"budget": "2 bits", **options})  # type: ignore[arg-type]
    assert sentence in str(refused.value)
