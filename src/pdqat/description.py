"""A problem as plain values, and back: what a run folder of an own model remembers beside weights and multipliers.

Code is never remembered. What was made of own classes (a quantiser scheme, a constraint, a dual rule) is noted by its
class name, and has to be given again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import torch.nn.functional as F
from torch import nn

from pdqat.constraints import CONSTRAINTS, Constraint
from pdqat.dual_rules import DUAL_RULES, DualRule
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import prepare
from pdqat.layers.interface import OutputChoice
from pdqat.objective import Loss, Objective
from pdqat.precision import BitPlan
from pdqat.quantizers import SCHEMES, Scheme
from pdqat.task import Problem, TaskProblem

FORMAT = 1
OWN = "own class"
LOSSES: dict[str, Loss] = {
    name: getattr(F, name)
    for name in ("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
}
"""Torch's losses, which a file may name; any other has to be given again."""


def describe(problem: Problem) -> dict[str, Any]:
    """All that `rebuild` needs beside the model, the example and the loss."""
    how = problem.net.preparation
    output = how.interface.output
    quantizer = next((name for name, scheme in SCHEMES.items() if scheme == how.scheme), None)
    description: dict[str, Any] = {
        "format": FORMAT,
        "plans": {name: plan.as_text() for name, plan in problem.net.plans.items()},
        "quantizer": {OWN: type(how.scheme).__name__} if quantizer is None else quantizer,
        "output": output if output is None or isinstance(output, int | str) else {OWN: _name(output)},
        "tied_norms": how.tied_norms,
        "integer_sums": how.integer_sums,
        "loss": loss_name(problem.loss),
    }
    if isinstance(problem, TaskProblem):
        return {**description, "low": problem.low}
    return {
        **description,
        "gradient": problem.gradient.value,
        "objective": problem.objective.value,
        "teacher": None if problem.teacher is None else _name(problem.teacher),
        "layer_sample": problem.layer_sample,
        "view_sample": problem.view_sample,
        "constraints": [_described(constraint, CONSTRAINTS) for constraint in problem.constraints],
        "duals": _described(problem.duals.rule, DUAL_RULES),
    }


def in_todays_fields(description: Mapping[str, Any]) -> dict[str, Any]:
    """A description of an earlier version, in which what problems and dual rules have got since has its default."""
    duals = description.get("duals")
    if not isinstance(duals, Mapping):  # of a task alone
        return dict(description)
    today = _filled(description, {"objective": Objective.FULL.value, "view_sample": 1.0})
    if duals.get("kind") not in list(DUAL_RULES):
        return today
    of_rule = {field.name: field.default for field in fields(DUAL_RULES[duals["kind"]])}
    return {**today, "duals": _filled(duals, of_rule)}


def _filled(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {**values, **{key: value for key, value in usual.items() if key not in values}}


def loss_name(loss: Loss) -> str:
    """The name of one of torch's losses, or of an own function or class."""
    known = next((name for name, function in LOSSES.items() if function is loss), None)
    return known or f"own: {_name(loss)}"


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def rebuild(
    description: Mapping[str, Any],
    model: nn.Module,
    example: Any,
    loss: Loss | None = None,
    *,
    quantizer: Scheme | None = None,
    output: OutputChoice | None = None,
    constraints: Sequence[Constraint] | None = None,
    duals: DualRule | None = None,
    teacher: nn.Module | None = None,
) -> Problem:
    """The problem that was described, on a plain model, which is prepared in place.

    Args:
        description: what `describe` returned.
        model: the plain module.
        example: the example input that the problem was prepared with.
        loss: the task loss, if it was not one of torch's functions.
        quantizer: the scheme, if it was an own one.
        output: the function that chooses the tensor to compare, if it was one.
        constraints: all constraints, if one of them was of an own class.
        duals: the dual rule, if it was of an own class.
        teacher: the teacher, if there was one.
    """
    try:
        return _rebuilt(description, model, example, loss, quantizer, output, constraints, duals, teacher)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"the description of the problem is damaged: {type(error).__name__} {error}") from error


def _rebuilt(
    description: Mapping[str, Any],
    model: nn.Module,
    example: Any,
    loss: Loss | None,
    quantizer: Scheme | None,
    output: OutputChoice | None,
    constraints: Sequence[Constraint] | None,
    duals: DualRule | None,
    teacher: nn.Module | None,
) -> Problem:
    if description["format"] != FORMAT:
        raise InputError(f"the description of the problem has format {description['format']!r}; {FORMAT} is known here")
    for key in ("tied_norms", "integer_sums", "low"):
        if not isinstance(description.get(key, False), bool):
            raise InputError(f"the description of the problem is damaged: {key} is {description[key]!r}")
    if loss is None:
        if description["loss"] not in LOSSES:
            raise InputError(
                f"the problem was trained with a loss of own code ({description['loss']}), which no file may name: "
                "give loss= again"
            )
        loss = LOSSES[description["loss"]]
    if quantizer is None and isinstance(description["quantizer"], Mapping):
        raise _missing("quantizer", description["quantizer"])
    described_output = description.get("output")
    if output is None and isinstance(described_output, Mapping):
        raise _missing("output", described_output)
    plans = [BitPlan(name, precisions) for name, precisions in description["plans"].items()]
    net = prepare(
        model,
        example,
        plans,
        quantizer=description["quantizer"] if quantizer is None else quantizer,
        output=described_output if output is None else output,
        tied_norms=description["tied_norms"],
        integer_sums=description["integer_sums"],
    )
    if "low" in description:
        return TaskProblem(net, loss, description["low"])
    if constraints is None:
        constraints = [_remade(values, CONSTRAINTS, "constraints") for values in description["constraints"]]
    if teacher is None and description.get("teacher") is not None:
        raise InputError(
            f"the problem was held to the outputs of a teacher, {description['teacher']}: give teacher= again"
        )
    rule = _remade(description["duals"], DUAL_RULES, "duals") if duals is None else duals
    return Lagrangian(
        net,
        loss,
        constraints,
        gradient=description["gradient"],
        duals=rule,
        objective=description.get("objective", Objective.FULL),
        teacher=teacher,
        layer_sample=description["layer_sample"],
        view_sample=description.get("view_sample", 1.0),
    )


def _described(thing: Any, known: Mapping[str, type]) -> dict[str, Any]:
    name = next((name for name, kind in known.items() if kind is type(thing)), None)
    return {OWN: type(thing).__name__} if name is None else {"kind": name, **asdict(thing)}


def _remade(values: Mapping[str, Any], known: Mapping[str, Any], argument: str) -> Any:
    if OWN in values:
        raise _missing(argument, values)
    return known[values["kind"]](**{key: value for key, value in values.items() if key != "kind"})


def _missing(argument: str, values: Mapping[str, Any]) -> InputError:
    return InputError(
        f"the problem was made with {values[OWN]}, own code that no file may name: give {argument}= again"
    )
