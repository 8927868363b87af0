"""The summary of a run: what was reached, with evidence for every constraint."""

import platform
from typing import Any

import torch
from torch import Tensor

import pdqat
from pdqat.allocation import Budget
from pdqat.lagrangian import Lagrangian
from pdqat.training.evaluation import evaluate
from pdqat.training.objectives import Objective
from pdqat.training.setup import Setup


def constraint_entries(objective: Objective, distances: Tensor) -> list[dict[str, Any]]:
    """Per constraint its name, kind, view, tolerance, distance, slack, multiplier and whether it is satisfied.

    For a constraint per channel, distance, slack and multiplier are lists with an entry per channel, and so is a
    tolerance that tunes itself.
    """
    if not isinstance(objective, Lagrangian):
        return []
    measured, multipliers = objective.duals.named(distances), objective.duals.named()
    tolerances = objective.duals.named(objective.tolerances)
    entries = []
    for each in objective.constraints:
        slack = measured[each.name] - tolerances[each.name]
        entries.append(
            {
                "name": each.name,
                "kind": each.kind,
                "where": each.where,
                "view": each.view,
                "tolerance": each.tolerance if each.price is None else _plain(tolerances[each.name], each.kind),
                "distance": _plain(measured[each.name], each.kind),
                "slack": _plain(slack, each.kind),
                "multiplier": _plain(multipliers[each.name], each.kind),
                "satisfied": bool((slack <= 0).all()),
            }
        )
    return entries


def summarize(setup: Setup, chosen_epoch: int, epochs: int, seconds: float, compiled: bool) -> dict[str, Any]:
    """Measure the chosen model on validation and test images; nothing else looks at the test images."""
    validation = evaluate(setup.objective, setup.validation_batches())
    test = evaluate(setup.objective, setup.test_batches())
    own = [parameter for name, parameter in setup.net.named_parameters() if ".views." not in name]
    plans = setup.net.plans.values()
    return {
        "method": setup.config.method.value,
        "epochs": epochs,
        "chosen_epoch": chosen_epoch,
        "accuracy": {
            view: {"validation": validation.accuracy[view], "test": test.accuracy[view]} for view in test.accuracy
        },
        "constraints": constraint_entries(setup.objective, validation.distances),
        "plans": {plan.name: plan.as_text() for plan in plans},
        **_budget(setup),
        "left_alone": setup.net.left_alone,
        "parameters": sum(parameter.numel() for parameter in own),
        "seconds": round(seconds, 3),
        "compiled": compiled,
        "versions": {"pdqat": pdqat.__version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def _budget(setup: Setup) -> dict[str, Any]:
    if setup.config.budget is None:
        return {}
    budget = Budget.parse(setup.config.budget)
    return {"budget": {"limit": str(budget), "used": str(setup.budget_used(budget))}}


def _plain(values: Tensor, kind: str) -> Any:
    numbers = values.tolist()
    return numbers if kind == "channel" else numbers[0]
