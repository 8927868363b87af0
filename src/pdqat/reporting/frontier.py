"""The frontier: plans from the smallest to the largest, the one that was trained, and two others by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pdqat.allocation.budget import Unit, plan_uses
from pdqat.allocation.frontier import frontier
from pdqat.allocation.frontier_file import frontier_entries
from pdqat.allocation.offer import offer
from pdqat.errors import InputError
from pdqat.layers.sizes import layer_sizes
from pdqat.reporting.subject import Subject
from pdqat.runs.entries import scores_in

JUDGES = 500
KEYS = ("average_bits", "kilobytes", "predicted_cost", "layers")
"""What is known of a plan beside its score, which stands under the metric's name."""
CLOSE = 0.01
"""The thrifty plan is the smallest whose score is no further from the best one."""


@dataclass(frozen=True)
class FrontierPoint:
    """A plan of the curve; its score is that of the weights as they are, without training for it."""

    name: str
    """Empty, or what the plan stands out for."""
    average_bits: float
    kilobytes: float
    cost: float | None
    score: float
    layers: dict[str, str]


@dataclass(frozen=True)
class Frontier:
    """The curve, and the plan that was trained, which need not lie on it."""

    metric: str
    is_share: bool
    """Whether scores are parts of one, which people read in per cent."""
    points: list[FrontierPoint]
    trained: FrontierPoint | None


def frontier_of(subject: Subject) -> Frontier:
    """The one that `pdqat plan --frontier` wrote; computed for a thorough report."""
    entries = subject.frontier
    if entries is None:
        if not subject.thorough:
            does = "`thorough=True` does that" if subject.is_own else "`pdqat report RUN` does that"
            raise InputError(f"it takes measuring many plans: {does}")
        judges = subject.held_out(JUDGES)
        offered = offer(subject.problem, judges, by="dual")  # which takes no time
        entries = frontier_entries(frontier(subject.problem, offered, subject.seen(), judges))
    metric = next(key for key in entries[0] if key not in KEYS)
    names = _names(entries, metric)
    points = [_point(entry, metric, names.get(index, "")) for index, entry in enumerate(entries)]
    return Frontier(metric, metric == "accuracy", points, _trained(subject, metric))


def _point(entry: Mapping[str, Any], metric: str, name: str) -> FrontierPoint:
    return FrontierPoint(
        name, entry["average_bits"], entry["kilobytes"], entry["predicted_cost"], entry[metric], dict(entry["layers"])
    )


def _names(entries: Sequence[Mapping[str, Any]], metric: str) -> dict[int, str]:
    """The best score, and the smallest plan that comes close to it, or the smallest of all if that is the best."""
    sign = -1 if metric == "task_loss" else 1
    scores = [sign * entry[metric] for entry in entries]
    by_size = sorted(range(len(entries)), key=lambda index: entries[index]["kilobytes"])
    best = max(by_size, key=lambda index: scores[index])
    margin = CLOSE if metric == "accuracy" else CLOSE * abs(scores[best])
    thrifty = next(index for index in by_size if scores[index] >= scores[best] - margin)
    if thrifty != best:
        return {best: "best score", thrifty: "smallest close to the best"}
    return {best: "best score", by_size[0]: "smallest"} if by_size[0] != best else {best: "best score, and smallest"}


def _trained(subject: Subject, metric: str) -> FrontierPoint | None:
    if subject.known_problem is None or subject.summary.get("metric", "accuracy") != metric:
        return None
    net = subject.known_problem.net
    plan = net.only_plan("place it beside other plans")
    sizes = layer_sizes(net)
    used = {unit: plan_uses(unit, plan.precisions, sizes) for unit in (Unit.BITS, Unit.BYTES)}
    score = scores_in(subject.summary)[plan.name]["validation"]
    return FrontierPoint("trained", used[Unit.BITS], used[Unit.BYTES] / 1000, None, score, plan.as_text())
