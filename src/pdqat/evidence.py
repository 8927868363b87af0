"""Evidence: for every bound its distance, tolerance, slack and multiplier, as plain entries and as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text
from torch import Tensor

from pdqat.lagrangian import Lagrangian
from pdqat.metric import Metric
from pdqat.task import Problem
from pdqat.terminal import new_table, number

Entry = dict[str, Any]


def bound_entries(problem: Problem, distances: Tensor) -> list[Entry]:
    """Per bound its name, kind, place, view, tolerance, distance, slack, multiplier and whether it is satisfied.

    For a bound per channel, distance, slack and multiplier are lists with an entry per channel, and so is a tolerance
    that tunes itself.
    """
    if not isinstance(problem, Lagrangian):
        return []
    measured, multipliers = problem.duals.named(distances), problem.duals.named()
    tolerances = problem.duals.named(problem.tolerances)
    entries = []
    for bound in problem.bounds:
        slack = measured[bound.name] - tolerances[bound.name]
        entries.append(
            {
                "name": bound.name,
                "kind": bound.kind,
                "where": bound.where,
                "view": bound.view,
                "tolerance": bound.tolerance if bound.price is None else _plain(tolerances[bound.name], bound.kind),
                "distance": _plain(measured[bound.name], bound.kind),
                "slack": _plain(slack, bound.kind),
                "multiplier": _plain(multipliers[bound.name], bound.kind),
                "satisfied": bool((slack <= 0).all()),
            }
        )
    return entries


def worst_slack(entry: Entry) -> float:
    """The largest slack of an entry: of its channels where it has several."""
    slack = entry["slack"]
    return float(max(slack)) if isinstance(slack, list) else float(slack)


def score_table(metric: Metric, parts: Mapping[str, Mapping[str, float]], title: str | None = None) -> Table:
    """The scores of every view, a column for each part of the data: {part: {view: score}}."""
    table = new_table(metric.name.replace("_", " ") if title is None else title)
    table.add_column("view")
    for part in parts:
        table.add_column(part, justify="right")
    for view in next(iter(parts.values())):
        name = "full precision" if view == "full" else view
        table.add_row(name, *(metric.text(scores[view]) for scores in parts.values()))
    return table


def bound_tables(entries: Sequence[Entry], plans: Mapping[str, Mapping[str, str]]) -> list[Table]:
    """A table for every view, narrow enough for 80 columns; `plans` are precisions by view and layer."""
    views = list(dict.fromkeys(entry["view"] for entry in entries))
    return [
        _bound_table(
            f"constraints of {view}" if len(views) > 1 else "constraints",
            [entry for entry in entries if entry["view"] == view],
            plans[view],
        )
        for view in views
    ]


def _bound_table(title: str, entries: Sequence[Entry], plan: Mapping[str, str]) -> Table:
    of_channels = any(entry["kind"] == "channel" for entry in entries)
    table = new_table(f"{title}: mean distance <= tolerance" + (", worst channel of each layer" if of_channels else ""))
    table.add_column("constraint", overflow="fold")
    is_mixed = len(set(plan.values())) > 1
    if is_mixed:
        table.add_column("bits", no_wrap=True)
    for heading in ("tolerance", "distance", "slack", "multiplier"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("satisfied", no_wrap=True)
    for entry in entries:
        slack = entry["slack"]
        worst = slack.index(max(slack)) if isinstance(slack, list) else 0
        row = [entry["where"] or entry["kind"]]
        row += [plan.get(entry["where"], "")] if is_mixed else []
        row += [number(_at(entry[key], worst)) for key in ("tolerance", "distance")]
        row += [number(_at(slack, worst), "+"), number(_at(entry["multiplier"], worst))]
        table.add_row(*row, "yes" if entry["satisfied"] else Text("no", "bold"))
    return table


def _at(value: float | list[float], index: int) -> float:
    return value[index] if isinstance(value, list) else value


def _plain(vector: Tensor, kind: str) -> Any:
    numbers = vector.tolist()
    return numbers if kind == "channel" else numbers[0]
