"""Measuring an objective on data: loss, accuracy of every view and mean distances, in evaluation mode."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from pdqat.lagrangian import Terms
from pdqat.training.objectives import Objective


@dataclass(frozen=True)
class Evaluation:
    """Means over a data set."""

    loss: float
    accuracy: dict[str, float]
    """Per view, from 0 to 1."""
    distances: Tensor
    """Of every multiplier's constraint, in the duals' order."""


@torch.no_grad()
def evaluate(
    objective: Objective,
    batches: Iterable[tuple[Tensor, Tensor]],
    compiled_terms: Callable[[Tensor, Tensor], Terms] | None = None,
) -> Evaluation:
    """Measure in evaluation mode, and leave the objective in the mode it was in.

    `compiled_terms` computes all batches but a smaller last one, which is not worth compiling for.
    """
    training = objective.training
    objective.eval()
    samples = 0
    largest = 0
    loss: Tensor | float = 0.0
    distances: Tensor | float = 0.0
    right: dict[str, Tensor] = {}
    for inputs, target in batches:
        size = len(target)
        largest = max(largest, size)
        compute = objective.terms if compiled_terms is None or size < largest else compiled_terms
        terms = compute(inputs, target)
        samples += size
        loss = loss + terms.loss * size
        distances = distances + terms.distances * size
        for view, output in terms.outputs.items():
            hits = (output.argmax(1) == target).sum()
            right[view] = right[view] + hits if view in right else hits
    objective.train(training)
    accuracy = {view: int(hits) / samples for view, hits in right.items()}
    return Evaluation(float(loss) / samples, accuracy, torch.as_tensor(distances) / samples)
