"""The table behind `pdqat sensitivity`: every layer's score with the evidence around it."""

import csv
import io
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from pdqat.sensitivity.subject import Subject
from pdqat.terminal import new_table, print_whole
from pdqat.training.run import layer_multipliers

LAST_EPOCHS = 2
"""Over so many a multiplier should have settled."""
BAR = 10


@dataclass(frozen=True)
class LayerReport:
    """What is known of a layer. Without layer constraints there is no distance, slack, tolerance or multiplier."""

    layer: str
    score: float
    precision: str
    multiplier: float | None
    change: float | None
    """Of the multiplier over the last epochs, relative to its size: 0 when it rests."""
    off: float | None
    """By which part of its tolerance the distance is over it, or not at it though the multiplier is above 0."""
    distance: float | None
    slack: float | None
    tolerance: float | None
    parameters: int
    operations: int


def report(subject: Subject, scores: dict[str, float]) -> list[LayerReport]:
    """The layers, the highest score first."""
    metrics = subject.metrics
    of_layer = {each["where"]: each for each in metrics[-1]["constraints"] if each["kind"] == "layer"}
    earlier = layer_multipliers(metrics[max(0, len(metrics) - 1 - LAST_EPOCHS)])
    found = []
    for name in sorted(scores, key=lambda each: -scores[each]):
        known = of_layer.get(name, {})
        size = subject.sizes[name]
        found.append(
            LayerReport(
                name,
                scores[name],
                str(subject.plan[name]),
                known.get("multiplier"),
                _change(known["multiplier"], earlier[name]) if known and len(metrics) > 1 else None,
                _off(known) if known else None,
                known.get("distance"),
                known.get("slack"),
                known.get("tolerance"),
                size.parameters,
                size.operations,
            )
        )
    return found


def _change(now: float, before: float) -> float:
    return 0.0 if now == before else abs(now - before) / max(now, before)


def _off(constraint: dict[str, Any]) -> float | None:
    """0 under complementary slackness."""
    if constraint["tolerance"] == 0:
        return None
    slack: float = constraint["slack"] / constraint["tolerance"]
    return abs(slack) if constraint["multiplier"] > 0 else max(slack, 0.0)


def as_csv(reports: list[LayerReport]) -> str:
    """One line a layer."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(asdict(reports[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(each) for each in reports)
    return text.getvalue()


def show(console: Console, reports: list[LayerReport], ranking: str) -> None:
    """As a table with bars."""
    table = new_table(f"layers by {ranking}: the longer the bar, the more precision is said to be worth")
    table.add_column("layer", no_wrap=True)
    table.add_column("", no_wrap=True)
    multiplier = ["multiplier"] if ranking != "dual" else []
    for heading in ("score", *multiplier, "moved", "off", "distance", "slack", "tolerance", "params", "MACs"):
        table.add_column(heading, justify="right", no_wrap=True)
    highest = max(each.score for each in reports)
    for each in reports:
        length = round(BAR * each.score / highest) if highest > 0 and each.score > 0 else 0
        rest = ["" if value is None else f"{value:.0%}" for value in (each.change, each.off)]
        numbers = [_number(each.score), *(_number(each.multiplier) for _ in multiplier), *rest]
        numbers += [_number(value) for value in (each.distance, each.slack, each.tolerance)]
        table.add_row(each.layer, "█" * length, *numbers, _short(each.parameters), _short(each.operations))
    print_whole(console, table)
    console.print(
        f"moved: change of the multiplier over the last {LAST_EPOCHS} epochs; off: how far the distance is from the "
        "tolerance that the multiplier stands for. Where both are near 0 % it has settled.",
        soft_wrap=True,
    )


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.2g}"


def _short(count: int) -> str:
    for factor, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= factor:
            return f"{count / factor:.3g}{letter}"
    return str(count)
