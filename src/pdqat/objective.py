"""What a problem minimises, and the parts of it on one batch."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from torch import Tensor

Loss = Callable[[Any, Any], Tensor]
"""The task loss of (output, target), a mean over the batch."""


class Objective(StrEnum):
    """Whose task loss is minimised."""

    FULL = "full"
    """That of the full-precision view f (the paper)."""
    LOW = "low"
    """That of every view f^q, by straight-through gradient; f is what it has to stay close to."""


@dataclass(frozen=True)
class Terms:
    """The parts of a problem on one batch."""

    loss: Tensor
    """The task loss of the objective: of the full-precision view, or the sum over the plans."""
    distances: Tensor
    """The mean distance of every multiplier's bound, as the duals have them."""
    outputs: dict[str, Tensor]
    """The output of every view that was computed; the full-precision one is called "full"."""
