"""The state of a problem: weights, norms, quantisers and multipliers, as checkpoints hold it."""

from typing import Any

from pdqat.errors import InputError
from pdqat.precision import MIXED, BitPlan
from pdqat.task import Problem, check_numbers

STRANGER_ERRORS = (LookupError, RuntimeError, TypeError, AttributeError, ArithmeticError)
"""What a state of another problem, or a damaged one, makes torch raise."""


def state_of(problem: Problem) -> dict[str, Any]:
    """What a checkpoint holds of a problem."""
    rest = {key: value for key, value in problem.state_dict().items() if not key.startswith("net.")}
    return {"model": problem.net.state_dict(), "duals": rest}


def with_state(problem: Problem, checkpoint: dict[str, Any], source: str) -> Problem:
    """The problem with a checkpoint's state: itself, or a copy under the plan that the checkpoint names.

    Raises InputError, which names the `source`, if the state is of another problem.
    """
    try:
        if "plan" in checkpoint:
            plan = problem.net.only_plan("load a state")
            named = BitPlan(checkpoint.get("view", MIXED), checkpoint["plan"])
            if plan != named:
                problem = problem.under_plan(named)
        problem.net.load_state_dict(checkpoint["model"])
        state = {f"net.{key}": value for key, value in problem.net.state_dict().items()}
        problem.load_state_dict({**state, **checkpoint["duals"]})
    except STRANGER_ERRORS as error:
        raise InputError(f"{source} does not fit the problem: {_reason(error)}") from error
    check_numbers(problem, source)
    return problem


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[1] if len(lines) > 1 else lines[0] if lines else type(error).__name__
