"""What `plans` compares: predictions of a plan's cost, each a table by layer and precision, and the seconds it took."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from typing import Any

from plan_networks import Subject
from plan_trained_costs import by_settled_multipliers, by_steps

from pdqat.allocation.budget import Budget
from pdqat.allocation.joint import Costs
from pdqat.allocation.offer import Offer, offer
from pdqat.allocation.proposals import Measure, choose, measuring
from pdqat.layers.sizes import layer_sizes
from pdqat.precision import BitPlan, Precision
from pdqat.sensitivity.low_layers import low_layers, plan_of
from pdqat.sensitivity.trials import loss_under

CANDIDATES = [Precision(bits, bits) for bits in (1, 2, 4, 8)]
BY_RANKING = ("dual", "hessian", "gradient", "loss", "only-low", "only-high", "distance", "random")
NAMES = (*BY_RANKING, "size", "lsq steps", "settled")
Table = dict[str, dict[str, float]]
"""By layer and precision, as files hold them."""


def by_ranking(subject: Subject, name: str) -> Table:
    samples = sum(len(target) for _, target in subject.judges)
    return as_text(offer(subject.problem, subject.judges, bits=CANDIDATES, by=name, samples=samples).costs)


def by_size(subject: Subject) -> Table:
    """A quarter of the error with every bit, times the number of weights."""
    sizes = layer_sizes(subject.problem.net)
    return {
        layer: {str(it): sizes[layer].parameters * 4.0 ** -(it.weight or 32) for it in CANDIDATES}
        for layer in low_layers(subject.problem)
    }


def predictions(subject: Subject) -> dict[str, Callable[[], Table]]:
    """By name, each to be timed."""
    return {
        **{name: partial(by_ranking, subject, name) for name in BY_RANKING},
        "size": partial(by_size, subject),
        "lsq steps": lambda: as_text(by_steps(subject, CANDIDATES)),
        "settled": lambda: as_text(by_settled_multipliers(subject, CANDIDATES)),
    }


def timed(make: Callable[[], Table]) -> dict[str, object]:
    started = time.process_time()
    table = make()
    return {"seconds": time.process_time() - started, "costs": table}


def pairwise(subject: Subject, singles: Table, bits: int = 1) -> dict[str, float]:
    """For pairs of layers: what both at so few bits add to the loss beyond what each adds alone.

    `singles` are the costs by loss, which are losses up to a number for each layer.
    """
    plan, layers = plan_of(subject.problem), low_layers(subject.problem)
    low = Precision(bits, bits)

    def loss(*lowered: str) -> float:
        changed = {**plan.precisions, **dict.fromkeys(lowered, low)}
        return loss_under(subject.problem, BitPlan(plan.name, changed), subject.judges)

    as_it_is = loss()
    alone = {layer: singles[layer][str(low)] - singles[layer][str(plan[layer])] for layer in layers}
    return {
        f"{one}|{other}": loss(one, other) - as_it_is - alone[one] - alone[other]
        for one, other in combinations(layers, 2)
    }


def with_pairs(costs: Table, pairs: Mapping[str, float], layers: Mapping[str, str]) -> float:
    """The cost of a plan with what pairs of layers add, each as far as both are toward the few bits.

    A layer's error is between none, at the bits that cost least, and all, at the few bits where pairs were measured.
    """
    part = {}
    for layer, of_layer in costs.items():
        least, most = min(of_layer.values()), of_layer["1"]
        part[layer] = 0.0 if most <= least else min(1.0, (of_layer[layers[layer]] - least) / (most - least)) ** 0.5
    both = (
        value * part[one] * part[other] for (one, other), value in ((pair.split("|"), it) for pair, it in pairs.items())
    )
    return total(costs, layers) + sum(both)


def total(costs: Table, layers: Mapping[str, str]) -> float:
    """Of an additive table."""
    return sum(of_layer[layers[layer]] for layer, of_layer in costs.items())


def proposing(subject: Subject) -> tuple[Offer, Measure, float]:
    """What the tool measures of single layers, how it measures plans, and the seconds that the first took."""
    started = time.process_time()
    samples = sum(len(target) for _, target in subject.judges)
    offered = offer(subject.problem, subject.judges, bits=CANDIDATES, samples=samples)
    return offered, measuring(subject.problem, subject.judges), time.process_time() - started


def proposed(offered: Offer, measure: Measure, budget: Budget) -> dict[str, Any]:
    """The tool's own plan within a budget, and the costs that fit all that was measured for it."""
    started = time.process_time()
    chosen = choose(offered, budget, measure)
    fit = offered.fitted([*offered.alone, *chosen.proposed])
    return {
        "seconds": time.process_time() - started,
        "losses": [trial.loss for trial in chosen.proposed],
        "loss": chosen.loss,
        "layers": {layer: str(it) for layer, it in chosen.solution.precisions.items()},
        "costs": as_text(fit.costs),
    }


def as_costs(table: Table) -> dict[str, dict[Precision, float]]:
    return {layer: {Precision.parse(bits): cost for bits, cost in row.items()} for layer, row in table.items()}


def as_text(costs: Costs) -> Table:
    return {layer: {str(it): float(cost) for it, cost in row.items()} for layer, row in costs.items()}
