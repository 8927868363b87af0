"""Bounds of every kind, and a small problem with two of them, for tests of multipliers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import Ascent, Lagrangian, LayerConstraint, OutputConstraint, prepare
from pdqat.constraints import Bound
from pdqat.dual_rules import DualRule

BOUNDS = [
    Bound("output", "", "2-bit", tolerance=0.1, start=1.0),
    Bound("layer", "conv0", "2-bit", tolerance=0.2),
    Bound("channel", "conv1", "4-bit", tolerance=0.3, channels=2),
]


def vector(*numbers: float) -> Tensor:
    """A number for every multiplier."""
    return torch.tensor(numbers)


def regression_lagrangian(bits: int = 2, rule: DualRule | None = None) -> Lagrangian:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)).double()
    net = prepare(model, torch.rand(4, 3, dtype=torch.float64), bits, quantizer="dorefa")
    constraints = [OutputConstraint("squared", 0.01), LayerConstraint("squared", 0.001)]
    return Lagrangian(net, F.mse_loss, constraints, duals=rule or Ascent(2.0), objective="full")


def batches(*sizes: int) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(5)
    shapes = [((size, 3), (size, 2)) for size in sizes]
    return [tuple(torch.rand(s, generator=generator, dtype=torch.float64) for s in pair) for pair in shapes]  # type: ignore[misc]
