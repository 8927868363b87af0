"""Choosing bits while a run trains, from its multipliers so far: `pdqat train --budget`."""

from pdqat.allocation.budget import Budget
from pdqat.allocation.prices import predicted_costs
from pdqat.allocation.program import Allocation, allocate
from pdqat.sensitivity.duals import multipliers
from pdqat.sensitivity.subject import Subject


def choose_plan(subject: Subject, budget: Budget) -> tuple[Allocation, str]:
    """The plan with the least predicted cost, and what it was chosen by.

    Where no multiplier is above 0 yet, all layers have the same price, and distances decide.
    """
    scores, by = multipliers(subject), "multipliers"
    if not any(scores.values()):
        scores, by = dict.fromkeys(scores, 1.0), "distances"
    choices = subject.setup.budget_choices()
    costs = predicted_costs(subject, scores, True, {layer: choices[layer] for layer in scores})
    table = {layer: costs.get(layer, dict.fromkeys(found, 0.0)) for layer, found in choices.items()}
    return allocate(table, {layer: subject.sizes[layer] for layer in table}, budget), by
