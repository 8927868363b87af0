"""f and f^q agree at the model's output: by the divergence of classes, or by squares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import final

import torch.nn.functional as F
from torch import Tensor, nn

from pdqat.classes import class_dims
from pdqat.constraints.base import Bound, Constraint, Sides, check_price, check_tolerance, choice, default_tolerance
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.layers.distances import precise
from pdqat.layers.recorder import Request
from pdqat.precision import BitPlan

CLASS_LOSSES = (F.cross_entropy, F.nll_loss, nn.CrossEntropyLoss, nn.NLLLoss)
"""Torch's losses of class labels: functions, and classes of modules."""
REGRESSION_LOSSES = (
    *(
        F.mse_loss,
        F.l1_loss,
        F.smooth_l1_loss,
        F.huber_loss,
        F.binary_cross_entropy,
        F.binary_cross_entropy_with_logits,
    ),
    *(nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss, nn.BCEWithLogitsLoss),
)
"""Torch's losses of numbers, each for itself."""


class OutputDistance(StrEnum):
    """How the outputs of f and f^q are compared."""

    CROSS_ENTROPY = "cross-entropy"
    """-sum f log f^q of the softmax outputs (the paper). Never below the entropy of f, which it lowers too."""
    KL = "kl"
    """The divergence, which is the cross-entropy minus the entropy of f: zero where the two agree."""
    SQUARED = "squared"
    """Mean squared error, for regression."""
    COSINE = "cosine"
    """1 - cosine of the angle between the two, as vectors in the last dimension, for embeddings."""

    @property
    def compares_classes(self) -> bool:
        """Whether outputs are scores of classes to it."""
        return self in (OutputDistance.CROSS_ENTROPY, OutputDistance.KL)

    def between(self, full: Tensor, low: Tensor, class_dim: int = 1) -> Tensor:
        """The mean distance over the batch; classes, if they are compared, stand in dimension `class_dim`."""
        full, low = precise(full), precise(low)
        if self is OutputDistance.SQUARED:
            return F.mse_loss(low, full)
        if self is OutputDistance.COSINE:
            return (1 - F.cosine_similarity(full, low, dim=-1)).mean()
        if full.dim() < 2 or not -full.dim() <= class_dim < full.dim() or full.shape[class_dim] < 2:
            raise InputError(
                f"outputs of shape {tuple(full.shape)} are no scores of classes in dimension {class_dim}, which the "
                f"distance '{self.value}' compares; use OutputConstraint('squared'), or another class_dim"
            )
        if class_dim not in (1, 1 - full.dim()):
            full, low = full.movedim(class_dim, 1), low.movedim(class_dim, 1)
        probabilities = full.softmax(1)
        cross_entropy = F.cross_entropy(low, probabilities)
        if self is OutputDistance.CROSS_ENTROPY:
            return cross_entropy
        return cross_entropy - F.cross_entropy(full, probabilities)


@final
@dataclass(frozen=True)
class OutputConstraint(Constraint):
    """f and f^q agree at the model's output. Its multiplier starts at 1 for the objective "full", as in Algorithm 1.

    Args:
        distance: a name of OutputDistance. By default the squared one for losses of regression and for outputs of one
            number a sample, else the divergence of the classes.
        tolerance: how far they may be apart; by default as `Tolerance` says.
        price: what relaxing the tolerance costs; None holds it fixed.
        class_dim: the dimension in which classes stand. By default dimension 1 for outputs [batch, classes] and for
            torch's cross-entropy; else the one that the labels' shape leaves.
    """

    distance: OutputDistance | str | None = None
    tolerance: float | None = None
    price: float | None = None
    class_dim: int | None = None
    kind = "output"

    def __post_init__(self) -> None:
        if self.distance is not None:
            object.__setattr__(self, "distance", choice(OutputDistance, self.distance, "output distance"))
        if self.class_dim is not None and (isinstance(self.class_dim, bool) or not isinstance(self.class_dim, int)):
            raise InputError(f"class_dim is a dimension of the output, such as 1 or -1, not {self.class_dim!r}")
        if isinstance(self.tolerance, Mapping):
            raise InputError(f"the tolerance of the output is one number, not {self.tolerance!r}")
        check_tolerance(self.tolerance)
        check_price(self.price)

    def for_task(self, loss: object, output: Sequence[int]) -> "OutputConstraint":
        """With the distance and the place of the classes, as far as loss and shape of the output tell them."""
        distance, class_dim = self.distance, self.class_dim
        is_one_number = len(output) < 2 or (len(output) == 2 and output[1] == 1)
        if distance is None and (is_one_number or _is_one_of(loss, REGRESSION_LOSSES)):
            distance = OutputDistance.SQUARED
        if distance is None and (class_dim is not None or _is_one_of(loss, CLASS_LOSSES)):
            distance = OutputDistance.KL
        if class_dim is None and (len(output) == 2 or _is_one_of(loss, CLASS_LOSSES)):
            class_dim = 1
        return replace(self, distance=distance, class_dim=class_dim)

    def for_target(self, output: Sequence[int], target: object) -> "OutputConstraint":
        """With what the labels tell: that there are classes, and where they stand."""
        known = None if self.distance is None else OutputDistance(self.distance)
        if known is not None and (self.class_dim is not None or not known.compares_classes):
            return self
        dims = class_dims(output, target)
        if self.distance is None and not dims:
            raise InputError(
                f"neither the loss nor the target tells whether outputs of shape {tuple(output)} are scores of classes "
                "or numbers: say so by OutputConstraint('kl') or OutputConstraint('squared')"
            )
        if self.class_dim is None and len(dims) != 1:
            raise InputError(
                f"in outputs of shape {tuple(output)} it is not clear where the classes stand: say so by "
                "OutputConstraint(class_dim=1) or class_dim=-1, or compare numbers by OutputConstraint('squared')"
            )
        class_dim = dims[0] if self.class_dim is None else self.class_dim
        return replace(self, distance=self.distance or OutputDistance.KL, class_dim=class_dim)

    def resolve(self, net: Network, plan: BitPlan) -> list[Bound]:
        """One bound."""
        smallest = default_tolerance(plan.lowest_bits_in())
        grows_with_squares = self.distance in (OutputDistance.KL, OutputDistance.COSINE, None)
        usual = smallest**2 if grows_with_squares else smallest
        tolerance = usual if self.tolerance is None else self.tolerance
        return [Bound(self.kind, "", plan.name, tolerance, start=None, price=self.price)]

    def request(self, net: Network, plan: BitPlan) -> Request | None:
        """The outputs are at hand: nothing to watch."""
        return None

    def distances(self, bounds: Sequence[Bound], sides: Sides) -> list[Tensor]:
        """Of the two outputs."""
        known = self.for_target(sides.full.shape, sides.target)
        distance = OutputDistance.KL if known.distance is None else OutputDistance(known.distance)
        return [distance.between(sides.full, sides.low, 1 if known.class_dim is None else known.class_dim).view(1)]

    def under_other_bits(self, bounds: Sequence[Bound]) -> "OutputConstraint":
        """With the tolerance as it is: what the model is for does not change with the bits of single layers."""
        return replace(self, tolerance=bounds[0].tolerance) if bounds else self


def _is_one_of(loss: object, losses: Sequence[object]) -> bool:
    return any(loss is known or type(loss) is known for known in losses)
