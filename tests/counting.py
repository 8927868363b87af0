"""A problem whose scores are known beforehand: its model counts the batches that it was trained on."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat.lagrangian import Lagrangian
from pdqat.layers import prepare
from pdqat.metric import Metric
from pdqat.task import Problem


class Counting(nn.Module):
    """Three layers, and the number of calls in training mode, which grows with every step of a training."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        output: Tensor = self.layers(inputs)
        return output


def _batches() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(3)
    return [(torch.rand(16, 4, generator=generator), torch.arange(16) % 3) for _ in range(3)]


BATCHES = _batches()


def counting_problem(seed: int = 0) -> Lagrangian:
    """With the same weights for the same seed."""
    torch.manual_seed(seed)
    return Lagrangian(prepare(Counting(), BATCHES[0][0], bits=2), F.cross_entropy)


def calls_of(problem: Problem) -> float:
    """How often its model was called in training."""
    model = problem.net.model
    assert isinstance(model, Counting)
    return float(model.calls)


def more_calls(problem: Problem) -> Metric:
    """Every epoch is better than the one before."""
    return Metric("calls", lambda *_: torch.tensor(calls_of(problem)))


def fewer_calls(problem: Problem) -> Metric:
    """Every epoch is worse than the one before."""
    return Metric("calls", lambda *_: torch.tensor(calls_of(problem)), higher_is_better=False)
