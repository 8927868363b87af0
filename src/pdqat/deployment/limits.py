"""What a target runs: the precisions that each layer may have so that the network can be written in a format.

Nothing is listed here. The format itself is asked: the network is written with every layer at a candidate precision,
and where that is refused, layer by layer. So a plan is limited by just what `export` would refuse.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdqat.deployment.deployable import Deployable
from pdqat.deployment.formats import FORMATS
from pdqat.errors import InputError
from pdqat.precision import MIXED, BitPlan, Plan, Precision
from pdqat.sensitivity.low_layers import low_layers
from pdqat.task import Problem


def check_runs(problem: Problem, plan: Plan, target: str, example: Any) -> None:
    """Raise InputError, with the reason, if the network under a plan can't be written in the target's format."""
    if target not in FORMATS:
        raise InputError(f"unknown target {target!r}; choose one of {', '.join(FORMATS)}")
    form = FORMATS[target]
    model = Deployable.of(problem.under_plan(plan).net, None, example)
    with tempfile.TemporaryDirectory() as scratch:
        form.write(model, Path(scratch) / form.file, False, model.samples(model.example))


def run_by(problem: Problem, target: str, example: Any, candidates: Sequence[Precision]) -> dict[str, list[Precision]]:
    """Per layer the candidates that the target runs; raises InputError if a layer has none.

    Args:
        problem: with one plan, whose layers are asked about.
        target: a name of `pdqat.deployment.formats.FORMATS`.
        example: a few inputs of the network.
        candidates: the precisions to ask about.
    """
    layers = list(low_layers(problem))

    def refusal(precisions: dict[str, Precision]) -> str | None:
        try:
            check_runs(problem, BitPlan(MIXED, precisions), target, example)
        except InputError as error:
            return str(error)
        return None

    refused = {candidate: refusal(dict.fromkeys(layers, candidate)) for candidate in candidates}
    everywhere = [candidate for candidate, reason in refused.items() if reason is None]
    rest = dict.fromkeys(layers, everywhere[0]) if everywhere else {}
    allowed: dict[str, list[Precision]] = {}
    for layer in layers:
        allowed[layer] = [it for it in candidates if it in everywhere or refusal({**rest, layer: it}) is None]
        if not allowed[layer]:
            reason = next(reason for reason in refused.values() if reason)
            raise InputError(f"the target {target} runs {layer} at none of these precisions: {reason}")
    return allowed
