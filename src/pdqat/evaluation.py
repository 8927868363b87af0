"""Measuring a problem on batches: loss, score of every view and mean distances, in evaluation mode."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pdqat.batches import Batches, on_device, samples_in
from pdqat.distributed import check_whole, dealt, union
from pdqat.errors import InputError
from pdqat.evidence import Entry, bound_entries, bound_tables, score_table
from pdqat.layers.modes import evaluating
from pdqat.metric import Metric, MetricLike, metric_for
from pdqat.objective import Terms
from pdqat.task import Problem, check_problem, class_dim_of
from pdqat.terminal import as_text


@dataclass(frozen=True)
class Evaluation:
    """Means over all samples. `print` shows the table of scores and the evidence for every constraint."""

    samples: int
    loss: float
    """The task loss of the objective: of the full-precision view, or the sum over the plans."""
    metric: Metric
    scores: dict[str, float]
    """The metric per view; the full-precision one is called "full"."""
    distances: Tensor
    """Of every multiplier's bound, as the duals have them."""
    constraints: list[Entry]
    """Per bound its tolerance, distance, slack, multiplier and whether it is satisfied."""
    plans: dict[str, dict[str, str]] = field(repr=False)

    def __str__(self) -> str:
        scores = score_table(self.metric, {f"{self.samples:,} samples": self.scores})
        return as_text([scores, *bound_tables(self.constraints, self.plans)])


@torch.no_grad()
def evaluate(
    problem: Problem,
    batches: Batches,
    metric: MetricLike | None = None,
    *,
    compiled_terms: Callable[[Any, Any], Terms] | None = None,
    shared: bool = False,
) -> Evaluation:
    """Measure in evaluation mode, and leave every module in the mode it was in.

    Args:
        problem: a Lagrangian or a TaskProblem.
        batches: any iterable of (inputs, target).
        metric: by which views are judged: "accuracy", "loss", a function of (output, target), or a Metric; by default
            accuracy if targets are class labels, else the task loss.
        compiled_terms: `torch.compile(problem.terms)`; it computes all batches but those smaller than the largest so
            far, which are not worth compiling for.
        shared: whether all processes of torch's default group call this, with the same batches: each measures some of
            them, and all return the numbers that one process would.

    Returns:
        Scores and evidence: print it, or read `scores` and `constraints`.

    Examples:
        >>> import pdqat, torch
        >>> x, y = torch.rand(64, 4), torch.arange(64) % 2
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
        >>> problem = pdqat.Lagrangian(pdqat.prepare(model, x, bits=4), torch.nn.functional.cross_entropy)
        >>> measured = pdqat.evaluate(problem, [(x, y)])
        >>> list(measured.scores), [bound["name"] for bound in measured.constraints]
        (['full', '4-bit'], ['4-bit/output', '4-bit/layer/1'])
    """
    check_problem(problem)
    if shared:
        check_whole(batches)
    device = next(problem.net.parameters()).device
    largest = 0
    sums: dict[int, tuple[int, Tensor, Tensor, dict[str, Tensor]]] = {}
    judged: Metric | None = metric if isinstance(metric, Metric) else None
    with evaluating(problem):
        for number, is_mine, inputs, target in dealt(batches, shared):
            if not is_mine and judged is not None:  # the first batch tells every process what the metric is
                continue
            inputs, target = on_device(inputs, device), on_device(target, device)
            size = samples_in(inputs)
            largest = max(largest, size)
            compute = problem.terms if compiled_terms is None or size < largest else compiled_terms
            terms = compute(inputs, target)
            output = next(iter(terms.outputs.values()))
            judged = judged or metric_for(metric, problem.loss, output, target, class_dim_of(problem))
            if is_mine:
                totals = {view: judged.total(output, target, size) for view, output in terms.outputs.items()}
                sums[number] = size, terms.loss * size, terms.distances * size, totals
    if shared:
        sums = union(sums)
    if judged is None or not sums:
        raise InputError("there is no batch to evaluate on")
    sizes, losses, distances, scores = zip(*sums.values(), strict=True)
    samples = sum(sizes)
    means = sum(distances[1:], start=distances[0]).to(device) / samples
    return Evaluation(
        samples,
        float(sum(losses)) / samples,
        judged,
        {view: float(sum(its_scores[view] for its_scores in scores)) / samples for view in scores[0]},
        means,
        bound_entries(problem, means),
        {name: plan.as_text() for name, plan in problem.net.plans.items()},
    )
