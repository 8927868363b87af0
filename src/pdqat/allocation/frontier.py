"""The whole trade-off: plans from the smallest budget to the largest, with predicted cost and measured accuracy.

Accuracy is that of the run's weights under the plan, without any training for it; training usually reaches more.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from pdqat.allocation.budget import Budget, Unit
from pdqat.allocation.measure import measure_under
from pdqat.allocation.program import Allocation, Costs, allocate
from pdqat.allocation.sizes import LayerSize
from pdqat.disk import write_atomically
from pdqat.pictures import BLUE, ORANGE, save
from pdqat.precision import FULL, BitPlan, Precision
from pdqat.sensitivity.subject import Subject
from pdqat.terminal import new_table

POINTS = 9


@dataclass(frozen=True)
class Point:
    """One plan of the curve."""

    allocation: Allocation
    average_bits: float
    kilobytes: float
    accuracy: float


def frontier(
    subject: Subject, costs: Costs, sizes: Mapping[str, LayerSize], excluded: Iterable[str] = ()
) -> list[Point]:
    """The cheapest plans at budgets in even ratios from the smallest to the largest, each once.

    Excluded layers are in full precision.
    """
    found: dict[float, Allocation] = {}
    for amount in _amounts(costs, sizes):
        each = allocate(costs, sizes, Budget(Unit.BITS, amount))
        found.setdefault(each.used.amount, each)
    rest = {**subject.plan.precisions, **dict.fromkeys(excluded, FULL)}
    return [_point(subject, each, sizes, rest) for each in found.values()]


def _amounts(costs: Costs, sizes: Mapping[str, LayerSize]) -> Sequence[float]:
    unit = Budget(Unit.BITS, 1.0)
    uses = [[unit.used_by(sizes[layer], precision) for precision in choices] for layer, choices in costs.items()]
    least, most = (unit.amount_of(sum(map(pick, uses)), sizes).amount for pick in (min, max))
    return [least * (most / least) ** (step / (POINTS - 1)) for step in range(POINTS)]


def _point(subject: Subject, found: Allocation, sizes: Mapping[str, LayerSize], rest: Mapping[str, Precision]) -> Point:
    size = Budget(Unit.BYTES, 1.0).used_by_all(found.precisions, sizes).amount
    measured = measure_under(subject, BitPlan(subject.plan.name, {**rest, **found.precisions}))
    return Point(found, found.used.amount, size / 1000, measured.accuracy)


def write_frontier(points: Sequence[Point], path: Path, console: Console) -> None:
    """Print the curve, and write it as JSON and, where matplotlib is installed, as pictures beside it."""
    table = new_table()
    for heading in ("average bits", "KB", "predicted cost", "accuracy without training"):
        table.add_column(heading, justify="right")
    for each in points:
        numbers = (f"{each.average_bits:.2f}", f"{each.kilobytes:.1f}", f"{each.allocation.cost:.4g}")
        table.add_row(*numbers, f"{100 * each.accuracy:.2f}%")
    console.print(table)
    content = [
        {
            "average_bits": each.average_bits,
            "kilobytes": each.kilobytes,
            "predicted_cost": each.allocation.cost,
            "accuracy": each.accuracy,
            "layers": {layer: str(precision) for layer, precision in each.allocation.precisions.items()},
        }
        for each in points
    ]
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    drawn = _draw(points, path)
    console.print(f"written: {', '.join(map(str, [path, *drawn]))}", highlight=False, markup=False, soft_wrap=True)


def _draw(points: Sequence[Point], path: Path) -> list[Path]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []  # no picture without matplotlib
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    sizes = [each.kilobytes for each in points]
    axes.plot(sizes, [100 * each.accuracy for each in points], "o-", color=BLUE)
    axes.set_xlabel("weights, KB")
    axes.set_ylabel("validation accuracy without training, %", color=BLUE)
    right = axes.twinx()
    costs = [each.allocation.cost for each in points]
    right.plot(sizes, costs, "s--", color=ORANGE)
    right.set_yscale("symlog", linthresh=min((cost for cost in costs if cost > 0), default=1.0))  # costs reach 0
    right.set_ylabel("predicted cost", color=ORANGE)
    return save(figure, path.with_suffix(""))
