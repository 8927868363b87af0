"""The trade-off as a table, as JSON and as a picture."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdqat.allocation.frontier import Point
from pdqat.disk import write_atomically
from pdqat.metric import ACCURACY
from pdqat.pictures import BLUE, ORANGE, save
from pdqat.terminal import PlainConsole, new_table, print_whole


def write_frontier(points: Sequence[Point], path: Path, console: PlainConsole) -> None:
    """Print the curve, and write it as JSON and, where matplotlib is installed, as pictures beside it."""
    table = new_table()
    metric = points[0].metric
    for heading in ("average bits", "KB", "predicted cost", f"{metric.name} without training"):
        table.add_column(heading, justify="right")
    for point in points:
        numbers = (f"{point.average_bits:.2f}", f"{point.kilobytes:.1f}", f"{point.solution.cost:.4g}")
        table.add_row(*numbers, metric.text(point.score))
    print_whole(console, table)
    write_atomically(path, (json.dumps(frontier_entries(points), indent=1) + "\n").encode())
    drawn = _draw(points, path)
    console.print(f"written: {', '.join(map(str, [path, *drawn]))}", soft_wrap=True)


def frontier_entries(points: Sequence[Point]) -> list[dict[str, Any]]:
    """The curve as plain values, one entry a plan."""
    return [
        {
            "average_bits": point.average_bits,
            "kilobytes": point.kilobytes,
            "predicted_cost": point.solution.cost,
            point.metric.name: point.score,
            "layers": {layer: str(precision) for layer, precision in point.solution.precisions.items()},
        }
        for point in points
    ]


def _draw(points: Sequence[Point], path: Path) -> list[Path]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []  # no picture without matplotlib
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    sizes = [point.kilobytes for point in points]
    is_accuracy = points[0].metric.name == ACCURACY.name
    axes.plot(sizes, [(100 if is_accuracy else 1) * point.score for point in points], "o-", color=BLUE)
    axes.set_xlabel("weights, KB")
    unit = ", %" if is_accuracy else ""
    axes.set_ylabel(f"validation {points[0].metric.name} without training{unit}", color=BLUE)
    right = axes.twinx()
    costs = [point.solution.cost for point in points]
    right.plot(sizes, costs, "s--", color=ORANGE)
    right.set_yscale("symlog", linthresh=min((cost for cost in costs if cost > 0), default=1.0))  # costs reach 0
    right.set_ylabel("predicted cost", color=ORANGE)
    return save(figure, path.with_suffix(""))
