"""Small problems of users' own kinds. Nothing is trained: weights are drawn, multipliers are set by hand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from pdqat import BitPlan, Lagrangian, LayerConstraint, OutputConstraint, TaskProblem, prepare
from pdqat.batches import Batches
from pdqat.constraints import Constraint
from pdqat.task import Problem

CLASSES = 3
SAMPLES = 48


class Perceptron(nn.Sequential):
    """Three hidden layers of different sizes, each with a batch norm."""

    layers = ("3", "6", "9")

    def __init__(self, outputs: int = CLASSES) -> None:
        super().__init__(
            *(nn.Linear(6, 10), nn.BatchNorm1d(10, momentum=0.9), nn.ReLU()),
            *(nn.Linear(10, 12), nn.BatchNorm1d(12, momentum=0.9), nn.ReLU()),
            *(nn.Linear(12, 8), nn.BatchNorm1d(8, momentum=0.9), nn.ReLU()),
            *(nn.Linear(8, 9), nn.BatchNorm1d(9, momentum=0.9), nn.ReLU()),
            nn.Linear(9, outputs),
        )


class Signal(nn.Sequential):
    """Convolutions over time, with a class for every moment."""

    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv1d(2, 6, 3, padding=1), nn.BatchNorm1d(6, momentum=0.9), nn.ReLU()),
            *(nn.Conv1d(6, 8, 3, padding=1, bias=False), nn.BatchNorm1d(8, momentum=0.9), nn.ReLU()),
            *(nn.Conv1d(8, 6, 1), nn.ReLU()),
            *(nn.Conv1d(6, 6, 3, padding=1, groups=2), nn.ReLU()),
            nn.Conv1d(6, CLASSES, 1),
        )


class TwoInputs(nn.Module):
    """Reads two tensors, by position or by name."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 8), nn.Linear(3, 8)
        self.hidden, self.deeper, self.deepest = nn.Linear(8, 10), nn.Linear(10, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        x = torch.relu(self.left(left) + self.right(right))
        x = torch.relu(self.deeper(torch.relu(self.hidden(x))))
        y: Tensor = self.head(torch.relu(self.deepest(x)))
        return y


@dataclass(frozen=True)
class Small:
    """A problem, and batches of the form that its users have."""

    problem: Lagrangian
    batches: Batches

    @property
    def first(self) -> tuple[Any, Any]:
        """Inputs and target."""
        inputs, target = next(iter(self.batches))
        return inputs, target


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labels(*shape: int) -> Tensor:
    return torch.randint(CLASSES, shape, generator=torch.Generator().manual_seed(2))


def small(kind: str = "perceptron", bits: int | str | BitPlan = 2, quantizer: str = "dorefa", **options: Any) -> Small:
    """A problem with multipliers above 0 that all differ."""
    model, inputs, target, loss, output = _KINDS[kind]()
    net = prepare(model, inputs, bits, quantizer=quantizer, layers=options.pop("layers", None))
    constraints: list[Constraint] = options.pop("constraints", [OutputConstraint(output), LayerConstraint()])
    problem = Lagrangian(net, loss, constraints, **options)
    set_multipliers(problem)
    settle_norms(problem, inputs)
    if isinstance(inputs, Tensor):
        return Small(problem.eval(), DataLoader(TensorDataset(inputs, target), batch_size=32))
    return Small(problem.eval(), [(inputs, target)])


def set_multipliers(problem: Lagrangian) -> None:
    """To 0.2, ..., 1, in an order that is not the layers'."""
    count = len(problem.duals.multipliers)
    problem.duals.multipliers.copy_(torch.linspace(0.2, 1.0, count).roll(1))


@torch.no_grad()
def settle_norms(problem: Problem, inputs: Any) -> None:
    """Let the norms of every view see the inputs in training mode, as they would in training."""
    problem.train()
    for view in [None, *problem.net.plans] * 3:
        with problem.net.under(view):
            problem.net.call(inputs)


def task_problem(low: bool = True) -> TaskProblem:
    """The task loss alone, with a perceptron."""
    model, inputs, _, loss, _ = _perceptron()
    return TaskProblem(prepare(model, inputs, 2), loss, low)


def state(problem: Problem) -> dict[str, Any]:
    """All that a problem is made of, to see whether it has changed."""
    tensors = {
        key: value.clone() if isinstance(value, Tensor) else value for key, value in problem.state_dict().items()
    }
    return {**tensors, "modes": [module.training for module in problem.modules()]}


def same_state(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(value, other[key]) if isinstance(value, Tensor) else value == other[key]
        for key, value in one.items()
    )


_Made = tuple[nn.Module, Any, Tensor, Callable[[Tensor, Tensor], Tensor], str]


def _perceptron() -> _Made:
    torch.manual_seed(0)
    return Perceptron(), drawn(SAMPLES, 6), labels(SAMPLES), F.cross_entropy, "kl"


def _signal() -> _Made:
    torch.manual_seed(0)
    return Signal(), drawn(SAMPLES, 2, 12), labels(SAMPLES, 12), F.cross_entropy, "cross-entropy"


def _regression() -> _Made:
    torch.manual_seed(0)
    return Perceptron(1), drawn(SAMPLES, 6), drawn(SAMPLES, 1, seed=2), F.mse_loss, "squared"


def _tuple() -> _Made:
    torch.manual_seed(0)
    return TwoInputs(), (drawn(SAMPLES, 4), drawn(SAMPLES, 3, seed=3)), labels(SAMPLES), F.cross_entropy, "kl"


def _dictionary() -> _Made:
    model, (left, right), target, loss, output = _tuple()
    return model, {"right": right, "left": left}, target, loss, output


_KINDS: dict[str, Callable[[], _Made]] = {
    "perceptron": _perceptron,
    "signal": _signal,
    "regression": _regression,
    "tuple of inputs": _tuple,
    "inputs by name": _dictionary,
}
KINDS = list(_KINDS)
