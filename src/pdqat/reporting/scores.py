"""Scores of every view: full precision, low precision, and low precision of the weights or the activations alone."""

from dataclasses import dataclass, replace

from pdqat.allocation.measure import measure_under
from pdqat.errors import InputError
from pdqat.evaluation import evaluate
from pdqat.precision import BitPlan, Precision
from pdqat.reporting.subject import Subject
from pdqat.runs.entries import scores_in
from pdqat.task import TaskProblem


@dataclass(frozen=True)
class ViewScores:
    """Of one view, by part of the data."""

    view: str
    kind: str
    """full, low, weights or activations."""
    by_part: dict[str, float]


@dataclass(frozen=True)
class Scores:
    """A row for every view."""

    metric: str
    is_share: bool
    """Whether scores are parts of one, which people read in per cent."""
    parts: list[str]
    rows: list[ViewScores]
    note: str
    """Why weights and activations alone are not there."""


def scores_of(subject: Subject) -> Scores:
    """Those of the summary, and beside them what rounding only weights or only activations costs."""
    summary = subject.summary
    name = summary.get("metric", "accuracy")
    rows = [
        ViewScores(view, "full" if view == "full" else "low", dict(parts)) for view, parts in scores_in(summary).items()
    ]
    scores = Scores(name, name == "accuracy", list(rows[0].by_part), rows, "")
    try:
        return _with_halves(subject, scores)
    except InputError as error:
        return replace(scores, note=str(error))


def _with_halves(subject: Subject, scores: Scores) -> Scores:
    problem, judges, training = subject.problem, subject.held_out(), subject.seen()
    plan = problem.net.only_plan("measure its weights and activations alone")
    subject.plans  # noqa: B018 - says if there is none
    part = "validation" if subject.validation.is_all else f"first {len(subject.validation):,} of validation"
    measured = evaluate(problem, judges, subject.metric)
    if measured.metric.name != scores.metric:
        raise InputError(f"the training was judged by {scores.metric}, and not by {measured.metric.name}: give metric=")
    rows = [
        replace(row, by_part={**row.by_part, part: row.by_part.get(part, measured.scores[row.view])})
        for row in scores.rows
    ]
    task = TaskProblem(problem.net, problem.loss)
    for kind, half in (("weights", _weights_only(plan)), ("activations", _activations_only(plan))):
        if half.low_layers:
            score = measure_under(task, half, training, judges, measured.metric).scores[half.name]
            rows.append(ViewScores(f"{plan.name}, {kind} only", kind, {part: score}))
    return replace(scores, parts=list(dict.fromkeys([*scores.parts, part])), rows=rows)


def _weights_only(plan: BitPlan) -> BitPlan:
    halves = {layer: Precision(plan[layer].weight, None) for layer in plan.low_layers}
    return BitPlan(plan.name, {**plan.precisions, **halves})


def _activations_only(plan: BitPlan) -> BitPlan:
    halves = {layer: Precision(None, plan[layer].activation) for layer in plan.low_layers}
    return BitPlan(plan.name, {**plan.precisions, **halves})
