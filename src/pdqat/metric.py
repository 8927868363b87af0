"""Metric: what the views of a network are judged by, and the best epoch of a training is chosen by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pdqat.classes import class_dims
from pdqat.errors import InputError
from pdqat.terminal import percent

KEYS = (
    *("epoch", "lr", "objective", "loss", "metric", "constraints", "plan", "view", "bits_chosen_by", "flip_rate"),
    *("method", "epochs", "chosen_epoch", "plans", "budget", "left_alone", "parameters", "seconds", "compiled"),
    *("processor", "processes", "versions"),
)
"""What metrics and summary hold beside the scores, which stand under the metric's name."""


@dataclass(frozen=True)
class Metric:
    """A number for a batch's output and target.

    Args:
        name: what it is called in tables and files.
        of: a function of (output, target) that returns a number for every sample, or their mean.
        higher_is_better: whether the best model has the highest score, or the lowest.

    Examples:
        >>> error = Metric("absolute_error", lambda output, target: (output - target).abs().mean(), False)
    """

    name: str
    of: Callable[[Any, Any], Tensor]
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.isidentifier()) or self.name in KEYS:
            raise InputError(f"a metric's name is a word other than {', '.join(KEYS)}, not {self.name!r}")
        if not callable(self.of):
            raise InputError(f"a metric is a function of (output, target), not {self.of!r}")

    def total(self, output: Any, target: Any, samples: int) -> Tensor:
        """The sum over the samples of a batch, in float64: counts stay whole numbers."""
        score = torch.as_tensor(self.of(output, target)).detach()
        return score.double().sum() if score.numel() == samples and score.dim() else score.double().mean() * samples

    def is_better(self, score: float, other: float | None) -> bool:
        """Whether a score beats another; any beats none."""
        return other is None or (score > other if self.higher_is_better else score < other)

    def text(self, score: float) -> str:
        """A score as people write it."""
        return percent(score) if self.name == "accuracy" else f"{score:.4g}"


MetricLike = Metric | Callable[[Any, Any], Tensor] | str
"""A Metric, a function of (output, target) of which more is better, "accuracy" or "loss"."""


def accuracy(class_dim: int) -> Metric:
    """Of class labels: the part of right choices, classes standing in that dimension of the output."""

    def right(output: Tensor, target: Tensor) -> Tensor:
        is_right = output.argmax(class_dim) == target
        if is_right.dim() == 1:
            return is_right.double()
        counted = (target >= 0).flatten(1)  # labels below 0, such as torch's -100 for padding, are none
        return (is_right.flatten(1) & counted).double().sum(1) / counted.sum(1).clamp_min(1)

    return Metric("accuracy", right)


ACCURACY = accuracy(1)


def task_loss(loss: Callable[[Any, Any], Tensor]) -> Metric:
    """The task loss itself, of every view."""
    return Metric("task_loss", loss, higher_is_better=False)


def metric_for(
    given: MetricLike | None,
    loss: Callable[[Any, Any], Tensor],
    output: Any,
    target: Any,
    class_dim: int | None = None,
) -> Metric:
    """The metric that was asked for; without a wish accuracy if targets are class labels, else the task loss.

    Args:
        given: a Metric, "accuracy", "loss", or a function of (output, target) of which more is better.
        loss: the task loss.
        output: the model's output for a batch.
        target: that batch's target.
        class_dim: the dimension of the output in which classes stand; by default the one that the labels tell.
    """
    if isinstance(given, Metric):
        return given
    dims = class_dims(output.shape, target) if isinstance(output, Tensor) else []
    if given is None and not dims:
        return task_loss(loss)
    if given is None or given == "accuracy":
        if not dims:
            raise InputError(
                "accuracy is for targets that are class labels, whole numbers for outputs with classes in dimension 1 "
                "or the last; use metric='loss', or a Metric"
            )
        return accuracy(dims[0] if class_dim is None else class_dim)
    if given == "loss":
        return task_loss(loss)
    if not callable(given):
        raise InputError(f"a metric is 'accuracy', 'loss', a function of (output, target) or a Metric, not {given!r}")
    return Metric(getattr(given, "__name__", "score").strip("<>"), given)
