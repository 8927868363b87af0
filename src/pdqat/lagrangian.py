"""The Lagrangian of problem ED-QRL: one module whose forward is what training minimises.

    L(theta, lambda) = mean loss(f(x), y) + sum_views sum_c lambda_c (mean distance_c - tolerance_c)

Tolerances that tune themselves are minimised over too. Their best value has a closed form, t_c = tolerance_c lambda_c /
price_c, so it takes no steps of its own: it follows the multiplier, and L has their cost h_c(t_c) in it.

Rounding has gradient zero, so weights feel a constraint through the full-precision side only: no gradient is estimated,
unless `norm` or `gradient` ask for it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

from pdqat.constraints import Constraint, LayerConstraint, OutputConstraint, Requirement, choice
from pdqat.duals import DualRule, Duals
from pdqat.errors import InputError
from pdqat.layers import Gradient, Network
from pdqat.layers.distances import precise
from pdqat.layers.recorder import Recorder
from pdqat.layers.trace import call_model

TaskLoss = Callable[[Any, Any], Tensor]


class GradientChoice(StrEnum):
    """Whether the output constraint also moves weights through the low-precision view."""

    EXACT = "exact"
    STRAIGHT_THROUGH = "straight-through"


class NormGradient(StrEnum):
    """What moves the affine parameters of a plan's own batch norms."""

    EXACT = "exact"
    """The exact gradient, which is zero for all that lie before a rounding."""
    STE = "ste"
    """A straight-through gradient of the output constraint; weights before the last rounding feel nothing of f^q."""


@dataclass(frozen=True)
class Terms:
    """The parts of the Lagrangian on one batch."""

    loss: Tensor
    """The task loss of the full-precision view."""
    distances: Tensor
    """The mean distance of every multiplier's constraint, in the duals' order."""
    outputs: dict[str, Tensor]
    """The output of every view; the full-precision one is called "full"."""


class Lagrangian(nn.Module):
    """Task loss plus multiplier times slack of every constraint.

    net           a prepared network; every one of its plans is constrained
    loss          the task loss of (output, target), a mean over the batch
    constraints   what to require; by default PDQAT with output and layer constraints
    gradient      "exact", or "straight-through": the output constraint also moves the weights through f^q
    norm          see NormGradient; networks prepared with `tied_norms` have no affine parameters of their own
    layer_sample  in training, layer and channel distances are estimated on so large a random part of each batch, but
                  on no fewer than 16 samples
    """

    distance_sum: Tensor
    samples: Tensor

    def __init__(
        self,
        net: Network,
        loss: TaskLoss,
        constraints: Sequence[Requirement] | None = None,
        *,
        gradient: GradientChoice | str = GradientChoice.EXACT,
        norm: NormGradient | str = NormGradient.STE,
        layer_sample: float = 1.0,
        dual_rate: float | None = None,
        dual_rule: DualRule | str = DualRule.ASCENT,
        dual_damping: float = 0.0,
        dual_nu: float = 0.0,
    ) -> None:
        super().__init__()
        self.net = net
        self.loss = loss
        self.requirements = tuple((OutputConstraint(), LayerConstraint()) if constraints is None else constraints)
        if not self.requirements:
            raise InputError("a Lagrangian needs at least one constraint; without any, train on the task loss itself")
        norm = choice(NormGradient, norm, "norm gradient")
        self.gradient = Gradient(choice(GradientChoice, gradient, "gradient").value)
        if self.gradient is Gradient.EXACT and norm is NormGradient.STE:
            self.gradient = Gradient.NORMS
        if not 0 < layer_sample <= 1:
            raise InputError(f"layer_sample is the part of a batch, above 0 and at most 1, not {layer_sample}")
        self.layer_sample = layer_sample
        self._resolved = {
            plan.name: [(requirement, requirement.resolve(net, plan)) for requirement in self.requirements]
            for plan in net.plans.values()
        }
        self._requests = {
            plan.name: [request for each in self.requirements if (request := each.request(net, plan)) is not None]
            for plan in net.plans.values()
        }
        resolved = [each for plan in self._resolved.values() for _, found in plan for each in found]
        if not resolved:
            raise InputError("the constraints apply to nothing: no plan quantises the weights of any layer")
        names = Counter(each.name for each in resolved)
        if len(names) < len(resolved):
            raise InputError(f"there are several constraints called {names.most_common(1)[0][0]!r}; one is allowed")
        self.duals = Duals(resolved, dual_rate, dual_rule, dual_damping, dual_nu)
        self.duals.check_relaxation(resolved)
        self.register_buffer("distance_sum", torch.zeros(len(self.duals.multipliers)))
        self.register_buffer("samples", torch.zeros(()))
        like = next(net.parameters())
        for module in (self.duals, self):
            for name, buffer in list(module.named_buffers(recurse=False)):
                module._buffers[name] = buffer.to(like.device, torch.promote_types(like.dtype, torch.float32))
        # Each rank's own sums: DistributedDataParallel would overwrite them with those of rank 0 in every forward.
        self._ddp_params_and_buffers_to_ignore = ["distance_sum", "samples"]

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """All constraints, in the order of the duals."""
        return self.duals.constraints

    @property
    def tolerances(self) -> Tensor:
        """Of every multiplier's constraint: as given, or where its multiplier has brought it."""
        return self.duals.tolerances

    def forward(self, inputs: Any, target: Any) -> Tensor:
        """The Lagrangian on a batch. In training it also keeps the sums that `dual_step` averages."""
        terms = self.terms(inputs, target)
        if self.training:
            self.accumulate(terms)
        return self.value(terms)

    def terms(self, inputs: Any, target: Any) -> Terms:
        """The parts, for a batch: one forward in full precision and one under each plan."""
        full = precise(call_model(self.net, inputs))
        loss = self.loss(full, target)
        outputs: dict[str, Tensor] = {"full": full}
        distances: list[Tensor] = []
        for name, plan in self.net.plans.items():
            recorder = Recorder(self._requests[name], self.layer_sample if self.training else 1.0)
            with self.net.under(plan, self.gradient, recorder):
                low = outputs[name] = precise(call_model(self.net, inputs))
            for requirement, constraints in self._resolved[name]:
                distances += requirement.distances(constraints, full, low, recorder)
        return Terms(loss, torch.cat(distances), outputs)

    def value(self, terms: Terms) -> Tensor:
        """Task loss + sum of multiplier x slack, + what relaxed tolerances cost."""
        multipliers = self.duals.multipliers
        relaxing = self.duals.relaxation * multipliers.square() / 2
        return terms.loss + (multipliers * (terms.distances - self.tolerances) + relaxing).sum()

    @torch.no_grad()
    def accumulate(self, terms: Terms) -> None:
        """Add a batch to the running mean of the distances, without waiting for the device."""
        size = len(terms.outputs["full"])
        self.distance_sum += terms.distances * size
        self.samples += size

    def mean_distances(self) -> Tensor:
        """The mean distances since the last dual step, over all samples of all ranks; before any, the tolerances."""
        total = torch.cat([self.distance_sum, self.samples.view(1)])
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(total)
        return torch.where(total[-1] > 0, total[:-1] / total[-1], self.tolerances)

    @torch.no_grad()
    def dual_step(self) -> Tensor:
        """One dual step on the slacks seen since the last one; returns these slacks."""
        slacks = self.mean_distances() - self.tolerances
        self.duals.step(slacks)
        self.distance_sum.zero_()
        self.samples.zero_()
        return slacks
