"""Choices: where targets are classes, the class of the largest score, and what can change it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pdqat.deployment.bounds.span import Span


@dataclass(frozen=True)
class Choices:
    """What a file chooses, beside the simulated model and the targets."""

    count: int
    right: int
    simulated_right: int
    differing: int
    """Those that are not the simulated model's."""
    unexplained: int
    """Of these, where the two classes' scores do not lie where rounding can bring them."""
    moved: float
    """How far, at most, the difference of the two scores is from the simulated model's, where choices differ."""
    bound: float
    """How far it could be there."""

    @property
    def accuracy(self) -> float:
        """Of the file."""
        return self.right / self.count

    @property
    def simulated_accuracy(self) -> float:
        """Of the simulated model."""
        return self.simulated_right / self.count

    def __add__(self, other: "Choices") -> "Choices":
        further = max(self, other, key=lambda part: part.moved)
        return Choices(
            self.count + other.count,
            self.right + other.right,
            self.simulated_right + other.simulated_right,
            self.differing + other.differing,
            self.unexplained + other.unexplained,
            further.moved,
            further.bound,
        )


def class_dim(output: Tensor, target: Any) -> int | None:
    """Which dimension of an output is the classes, if targets are that: whole numbers, one for every place of it.

    Dimension 1 for (batch, classes, ...), the last one for (batch, ..., classes): as the targets' shape tells.
    """
    if not isinstance(target, Tensor) or target.is_floating_point() or target.is_complex() or output.dim() < 2:
        return None
    dims = [
        dim
        for dim in (1, output.dim() - 1)
        if target.shape == output.shape[:dim] + output.shape[dim + 1 :] and output.shape[dim] > 1
    ]
    return dims[0] if dims and target.dtype is not torch.bool and output.is_floating_point() else None


def compare_choices(output: Tensor, simulated: Tensor, labels: Tensor, differs: Tensor, ends: Span | None) -> Choices:
    """Of a batch, whose classes stand in dimension 1.

    differs     the samples in which a choice does
    ends        of these samples' scores, as rounding can move them; None if there are none
    """
    given, wanted = output.argmax(1), simulated.argmax(1)
    unexplained, moved, bound = 0, 0.0, 0.0
    if ends is not None:
        classes = torch.stack([given[differs], wanted[differs]], 1)
        other = classes[:, 0] != classes[:, 1]
        scores = [tensor[differs].double().gather(1, classes) for tensor in (output, simulated)]
        low, high = ends.low.gather(1, classes), ends.high.gather(1, classes)
        inside = torch.stack([(low <= score) & (score <= high) for score in scores]).all(0).all(1)
        unexplained = int((other & ~inside).sum())
        gaps = [score[:, 0] - score[:, 1] for score in scores]
        moves, bounds = (gaps[0] - gaps[1])[other], (high - low).sum(1)[other]
        furthest = int(moves.nan_to_num(torch.inf).argmax())
        moved, bound = float(moves[furthest]), float(bounds[furthest])
    return Choices(
        given.numel(),
        int((given == labels).sum()),
        int((wanted == labels).sum()),
        int((given != wanted).sum()),
        unexplained,
        moved,
        bound,
    )
