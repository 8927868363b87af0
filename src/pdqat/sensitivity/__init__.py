"""Which layers need precision: rankings by the multipliers of a problem, and by what others use instead.

A ranking method maps every quantised layer to a score; the higher, the more the layer is said to need its precision.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pdqat.batches import Batches, limited, on_device
from pdqat.errors import InputError
from pdqat.evaluation import evaluate
from pdqat.evidence import Entry
from pdqat.layers.sizes import layer_sizes
from pdqat.sensitivity.blind import at_random, first_and_last
from pdqat.sensitivity.distance import layer_distance
from pdqat.sensitivity.divergence import only_high, only_low
from pdqat.sensitivity.duals import multipliers
from pdqat.sensitivity.gradient import first_order
from pdqat.sensitivity.hessian import trace_times_error
from pdqat.sensitivity.low_layers import plan_of
from pdqat.sensitivity.ranking import RankedLayer, Ranking, relative_change, slack_in_tolerances
from pdqat.sensitivity.trials import loss_saved
from pdqat.task import Problem, check_numbers, check_problem

SAMPLES = 1000
"""So many held-out samples judge, unless told otherwise."""

BY_LOSS = "loss"
"""The ranking under which plans measure the loss of every candidate."""

Method = Callable[[Problem, Batches], dict[str, float]]

RANKINGS: dict[str, Method] = {
    "dual": multipliers,
    "hessian": trace_times_error,
    "gradient": first_order,
    BY_LOSS: loss_saved,
    "only-low": only_low,
    "only-high": only_high,
    "distance": layer_distance,
    "random": at_random,
    "first-and-last": first_and_last,
}


def rank(
    problem: Problem,
    batches: Batches,
    by: str = "dual",
    *,
    samples: int = SAMPLES,
    history: Sequence[Entry] = (),
) -> Ranking:
    """Rank the layers by what their precision costs.

    Args:
        problem: a trained Lagrangian, or a TaskProblem, with one plan.
        batches: held-out samples to judge by: any iterable of (inputs, target).
        by: a name of `RANKINGS`: "dual", "hessian", "gradient", "loss", "only-low", "only-high", "distance", "random",
            "first-and-last".
        samples: how many of the samples to look at.
        history: the epochs' entries of the training (`history.epochs`), to tell whether multipliers have settled.

    Returns:
        The ranked layers: print it, or read `scores` and `layers`.

    Examples:
        >>> import pdqat, torch
        >>> x, y = torch.rand(64, 4), torch.arange(64) % 2
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> problem = pdqat.Lagrangian(pdqat.prepare(model, x, bits=4), torch.nn.functional.cross_entropy)
        >>> pdqat.rank(problem, [(x, y)]).scores
        {'1': 0.0}
    """
    if not isinstance(history, Sequence):
        raise InputError(f"history is a list of epochs, such as history.epochs, not a {type(history).__name__}")
    judges = held_out(problem, batches, samples)
    scores = layer_scores(problem, judges, by)
    constraints = evaluate(problem, judges).constraints
    known = {entry["where"]: entry for entry in constraints if entry["kind"] == "layer"}
    plan, sizes = plan_of(problem), layer_sizes(problem.net)
    layers = []
    for name in sorted(scores, key=lambda layer: -scores[layer]):
        entry = known.get(name, {})
        layers.append(
            RankedLayer(
                name,
                scores[name],
                str(plan[name]),
                entry.get("multiplier"),
                relative_change(name, history) if entry else None,
                slack_in_tolerances(entry) if entry else None,
                entry.get("distance"),
                entry.get("slack"),
                entry.get("tolerance"),
                sizes[name].parameters,
                sizes[name].operations,
            )
        )
    return Ranking(by, layers)


def layer_scores(problem: Problem, batches: Batches, by: str) -> dict[str, float]:
    """The scores alone, by layer."""
    if by not in RANKINGS:
        raise InputError(f"unknown ranking {by!r}; choose one of {', '.join(RANKINGS)}")
    return RANKINGS[by](problem, batches)


def held_out(problem: Problem, batches: Batches, samples: int) -> list[tuple[Any, Any]]:
    """The first so many samples, where the problem's network is."""
    if not isinstance(samples, int) or samples < 1:
        raise InputError(f"samples must be a whole number from 1 upwards, not {samples!r}")
    check_problem(problem)
    check_numbers(problem, "the problem")
    device = next(problem.net.parameters()).device
    kept = [(on_device(inputs, device), on_device(target, device)) for inputs, target in limited(batches, samples)]
    if not kept:
        raise InputError("there is no sample to judge layers by: the batches are empty")
    return kept
