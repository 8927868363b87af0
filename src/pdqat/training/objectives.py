"""What each method minimises: a module whose forward(x, y) is the training loss of a batch."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat.constraints import (
    BlockConstraint,
    ChannelConstraint,
    Constraint,
    LayerConstraint,
    OutputConstraint,
    Requirement,
    Tolerance,
)
from pdqat.lagrangian import Lagrangian, NormGradient, Terms
from pdqat.layers import Gradient, Network
from pdqat.layers.distances import precise
from pdqat.layers.trace import call_model
from pdqat.training.config import Level, Method, NormChoice, TrainConfig


class TaskObjective(nn.Module):
    """The task loss alone: of the full-precision view, or of every plan by straight-through gradient."""

    constraints: tuple[Constraint, ...] = ()

    def __init__(self, net: Network, low: bool) -> None:
        super().__init__()
        self.net = net
        self.low = low

    def forward(self, inputs: Any, target: Any) -> Tensor:
        """The loss on a batch."""
        return self.value(self.terms(inputs, target))

    def terms(self, inputs: Any, target: Any) -> Terms:
        """The loss and the outputs of the views that are trained."""
        outputs: dict[str, Tensor] = {}
        for name, plan in self.net.plans.items() if self.low else [("full", None)]:
            with self.net.under(plan, Gradient.STRAIGHT_THROUGH):
                outputs[name] = precise(call_model(self.net, inputs))
        loss = torch.stack([F.cross_entropy(output, target) for output in outputs.values()]).sum()
        return Terms(loss, loss.new_zeros(0), outputs)

    def value(self, terms: Terms) -> Tensor:
        """The loss itself."""
        return terms.loss


Objective = TaskObjective | Lagrangian


def make_objective(net: Network, config: TrainConfig) -> Objective:
    """The objective of the configured method."""
    if config.method in (Method.FULL, Method.STE):
        return TaskObjective(net, low=config.method is Method.STE)
    requirements: list[Requirement] = [OutputConstraint(config.output_distance, config.output_tolerance)]
    if config.method is Method.PDQAT_LAYERS:
        requirements.append(_below_output(config))
    return Lagrangian(
        net,
        F.cross_entropy,
        requirements,
        gradient=config.gradient.value,
        norm=NormGradient.STE if config.norm is NormChoice.STE else NormGradient.EXACT,
        layer_sample=config.layer_sample,
        dual_rate=config.dual_rate,
        dual_rule=config.dual_rule,
        dual_damping=config.dual_damping,
        dual_nu=config.dual_nu,
    )


def _below_output(config: TrainConfig) -> Requirement:
    tolerance: Tolerance = config.layer_tolerance
    if config.tolerances:
        tolerance = dict(config.tolerances)
        if config.layer_tolerance is not None:
            tolerance.setdefault("*", config.layer_tolerance)
    if config.level is Level.BLOCK:
        return BlockConstraint(config.layer_distance, tolerance, config.tolerance_price, blocks=tuple(config.blocks))
    kind = ChannelConstraint if config.level is Level.CHANNEL else LayerConstraint
    return kind(config.layer_distance, tolerance, config.tolerance_price)
