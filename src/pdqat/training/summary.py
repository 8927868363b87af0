"""The summary of a training: what was reached, with evidence for every bound."""

import platform
from collections.abc import Mapping
from typing import Any

import torch
from rich.console import RenderableType

from pdqat.batches import Batches
from pdqat.distributed import processes
from pdqat.evaluation import evaluate
from pdqat.evidence import bound_tables, score_table
from pdqat.metric import ACCURACY, Metric, MetricLike
from pdqat.process import processor
from pdqat.runs.entries import scores_in
from pdqat.task import Problem
from pdqat.version import __version__


def summarize(
    problem: Problem, metric: MetricLike | None, validation: Batches, test: Batches | None, about: Mapping[str, Any]
) -> dict[str, Any]:
    """Measure a problem on validation and test samples; nothing else looks at the test samples.

    `about` are further entries: how it was trained.
    """
    measured = evaluate(problem, validation, metric, shared=True)
    parts = {"validation": measured.scores}
    if test is not None:
        parts["test"] = evaluate(problem, test, measured.metric, shared=True).scores
    own = [parameter for name, parameter in problem.net.named_parameters() if ".views." not in name]
    return {
        "metric": measured.metric.name,
        measured.metric.name: {view: {part: parts[part][view] for part in parts} for view in measured.scores},
        "constraints": measured.constraints,
        "plans": measured.plans,
        "left_alone": problem.net.left_alone,
        "parameters": sum(parameter.numel() for parameter in own),
        **about,
        "processor": processor(),
        "processes": processes(),
        "versions": {"pdqat": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def summary_parts(summary: Mapping[str, Any]) -> list[RenderableType]:
    """The tables and lines that show a summary."""
    scores = scores_in(summary)
    name = summary.get("metric", "accuracy")
    metric = ACCURACY if name == ACCURACY.name else Metric(name, ACCURACY.of)
    parts = next(iter(scores.values()))
    table = score_table(metric, {part: {view: scores[view][part] for view in scores} for part in parts})
    shown: list[RenderableType] = [table, *bound_tables(summary["constraints"], summary["plans"])]
    if "budget" in summary:
        shown.append("budget: {used} of {limit}".format(**summary["budget"]))
    shown.append(
        f"{summary['method']}, model of epoch {summary['chosen_epoch']} of {summary['epochs']}, "
        f"{summary['parameters']:,} parameters, {summary['seconds']:.0f} s of training"
    )
    return shown
