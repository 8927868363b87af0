"""Constraints: where f and f^q must stay close, by which distance, and how close (problem QRL of the paper).

A constraint such as `LayerConstraint(tolerance=0.1)` is what a user states; for a network it resolves to `Bound`s, one
for every layer and plan. The slack of a bound is its mean distance minus its tolerance.
"""

from pdqat.constraints.activation import ActivationConstraint, BlockConstraint, ChannelConstraint, LayerConstraint
from pdqat.constraints.base import Bound, Constraint, Sides, Tolerance, choice, default_tolerance
from pdqat.constraints.output import OutputConstraint, OutputDistance
from pdqat.constraints.task_loss import LossConstraint

__all__ = [
    "CONSTRAINTS",
    "ActivationConstraint",
    "BlockConstraint",
    "Bound",
    "ChannelConstraint",
    "Constraint",
    "LayerConstraint",
    "LossConstraint",
    "OutputConstraint",
    "OutputDistance",
    "Sides",
    "Tolerance",
    "choice",
    "default_tolerance",
]

CONSTRAINTS: dict[str, type[Constraint]] = {
    constraint.kind: constraint
    for constraint in (OutputConstraint, LossConstraint, LayerConstraint, ChannelConstraint, BlockConstraint)
}
"""The constraints that files know by their kind."""
