"""The whole trade-off: plans from the smallest budget to the largest, with predicted cost and measured accuracy.

Accuracy is that of the run's weights under the plan, without any training for it; only the statistics of the
low-precision batch norms are estimated anew, on training images. Training under the plan usually reaches more.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from rich.console import Console
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.allocation.budget import Budget, LayerSize, Unit
from pdqat.allocation.program import Allocation, Costs, allocate
from pdqat.layers import Network
from pdqat.layers.norm import PrecisionNorm
from pdqat.pictures import BLUE, ORANGE, save
from pdqat.precision import BitPlan
from pdqat.sensitivity.subject import Subject
from pdqat.terminal import new_table
from pdqat.training.files import write_atomically

POINTS = 9
STATISTICS_BATCHES = 8


@dataclass(frozen=True)
class Point:
    """One plan of the curve."""

    allocation: Allocation
    average_bits: float
    kilobytes: float
    accuracy: float


def frontier(subject: Subject, costs: Costs, sizes: Mapping[str, LayerSize]) -> list[Point]:
    """The cheapest plans at budgets spread evenly between the smallest and the largest, each once."""
    found: dict[float, Allocation] = {}
    for amount in _amounts(costs, sizes):
        each = allocate(costs, sizes, Budget(Unit.BITS, amount))
        found.setdefault(each.used.amount, each)
    return [_point(subject, each, sizes) for each in found.values()]


def _amounts(costs: Costs, sizes: Mapping[str, LayerSize]) -> Sequence[float]:
    unit = Budget(Unit.BITS, 1.0)
    uses = [[unit.used_by(sizes[layer], precision) for precision in choices] for layer, choices in costs.items()]
    least, most = (unit.amount_of(sum(map(pick, uses)), sizes).amount for pick in (min, max))
    return [least + (most - least) * step / (POINTS - 1) for step in range(POINTS)]


def _point(subject: Subject, found: Allocation, sizes: Mapping[str, LayerSize]) -> Point:
    in_bytes = Budget(Unit.BYTES, 1.0)
    size = sum(in_bytes.used_by(sizes[layer], precision) for layer, precision in found.precisions.items())
    accuracy = accuracy_under(subject, BitPlan(subject.plan.name, {**subject.plan.precisions, **found.precisions}))
    return Point(found, found.used.amount, size / 1000, accuracy)


@torch.no_grad()
def accuracy_under(subject: Subject, plan: BitPlan) -> float:
    """On the held-out images, with the run's weights."""
    net = copy.deepcopy(subject.net)
    _estimate_statistics(net, subject, plan)
    net.eval()
    right = count = 0
    for inputs, target in subject.batches():
        with net.state.under(plan):
            right += int((net(inputs).argmax(1) == target).sum())
        count += len(target)
    return right / count


def _estimate_statistics(net: Network, subject: Subject, plan: BitPlan) -> None:
    """The mean over a few batches, in place of the running ones."""
    for module in net.modules():
        if isinstance(module, PrecisionNorm):
            view = module.views[plan.name]
            assert isinstance(view, _BatchNorm)
            view.reset_running_stats()
            view.momentum = None  # torch's word for a plain mean
    net.train()
    for inputs, _ in islice(subject.setup.training_batches(0), STATISTICS_BATCHES):
        with net.state.under(plan):
            net(inputs)


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
    right.plot(sizes, [each.allocation.cost for each in points], "s--", color=ORANGE)
    right.set_ylabel("predicted cost", color=ORANGE)
    return save(figure, path.with_suffix(""))
