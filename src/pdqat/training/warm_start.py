"""Starting from what another training left: the norms of its low-precision view, and its multipliers."""

from typing import Any

from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers.transfer import take_view, views_in
from pdqat.task import Problem
from pdqat.training.state import STRANGER_ERRORS


def take_over(problem: Problem, checkpoint: dict[str, Any], source: str) -> None:
    """Take the norms of the checkpoint's view, and the multipliers of bounds that are still there."""
    views, plans = views_in(checkpoint["model"]), problem.net.plans
    if len(views) != 1 or len(plans) != 1:
        raise InputError(
            f"to carry over, {source} and the new training need one plan each, not {len(views)} and {len(plans)}"
        )
    try:
        take_view(problem.net, checkpoint["model"], views[0])
        if isinstance(problem, Lagrangian):
            prefix = "duals."
            duals = {key: value for key, value in checkpoint["duals"].items() if key.startswith(prefix)}
            problem.duals.take_over({key.removeprefix(prefix): value for key, value in duals.items()})
    except STRANGER_ERRORS as error:
        raise InputError(f"{source} is of another model") from error
