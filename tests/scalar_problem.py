"""A problem with a known answer: scalar weights w on the whole numbers, g = round(w), and a goal a for each.

minimise (w - a)^2    subject to    E[z^2] (w - g)^2 <= tolerance
"""

import torch
from torch import Tensor, nn

from pdqat import Lagrangian, Network, prepare
from pdqat.quantizers import DoReFaActivation, Grid, Quantizer, Scheme


class WholeNumbers(Quantizer):
    """Weights on the whole numbers, whatever the bits."""

    def full(self, tensor: Tensor) -> Tensor:
        return tensor

    def grid(self, tensor: Tensor, bits: int) -> Grid:
        one = tensor.new_ones(())
        return Grid(torch.round(tensor), one, torch.zeros_like(one))

    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        return tensor


class SideBySide(nn.Module):
    """Column i of the input times weight i."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([layer(x[:, i : i + 1]) for i, layer in enumerate(self.weights)], 1)


Z = torch.tensor([[0.5], [-1.5], [1.0], [-2.0], [0.25]], dtype=torch.float64)
ENERGY = (0.25 + 2.25 + 1.0 + 4.0 + 0.0625) / 5
GOAL, NEAREST = 2.4, 2.0


def squared_to_goal(output: Tensor, goal: Tensor) -> Tensor:
    """(w - a)^2, from w z and a z."""
    return ((output - goal) ** 2).mean() / ENERGY


def prepared(starts: list[float]) -> Network:
    model = SideBySide(len(starts)).double()
    for parameter, start in zip(model.parameters(), starts, strict=True):
        nn.init.constant_(parameter, start)
    scheme = Scheme(WholeNumbers, DoReFaActivation)
    return prepare(model, Z.expand(-1, len(starts)), "w8", layers={"*": "w8"}, quantizer=scheme)


def solve(lagrangian: Lagrangian, goal: Tensor, steps: int = 40) -> None:
    """Algorithm 1 with full batches: primal descent, then a dual step on fresh slacks."""
    inputs = Z.expand(-1, goal.shape[1])
    parameters = list(lagrangian.net.parameters())
    for _ in range(steps):
        for _ in range(8):
            curvature = 2 * (1 + lagrangian.duals.multipliers.max().item() * ENERGY)
            value = lagrangian.value(lagrangian.terms(inputs, goal))
            with torch.no_grad():
                for parameter, gradient in zip(parameters, torch.autograd.grad(value, parameters), strict=True):
                    parameter.sub_(gradient / curvature)
        lagrangian.accumulate(lagrangian.terms(inputs, goal))
        lagrangian.dual_step()
