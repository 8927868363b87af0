"""The Lagrangian of problem ED-QRL: one module whose forward is what training minimises.

    L(theta, lambda) = mean loss(f(x), y) + sum_views sum_c lambda_c (mean distance_c - tolerance_c)

That is the objective "full", the paper's. With "low" the task loss is that of f^q instead, and f's closeness is what is
required of it. Then f^q learns without the output constraint, whose multiplier starts at 0 like all others.

Tolerances that tune themselves are minimised over too. Their best value has a closed form, t_c = tolerance_c lambda_c /
price_c, so it takes no steps of its own: it follows the multiplier, and L has their cost h_c(t_c) in it.

Rounding has gradient zero, so weights feel a layer constraint through the full-precision side only. Whether the output
constraint reaches them through f^q, by an estimated gradient, is up to `gradient`.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pdqat.batches import samples_in, these_rows
from pdqat.constraints import Bound, Constraint, LayerConstraint, OutputConstraint, Sides, choice
from pdqat.distributed import processes, reaching, take_from_first, total, weighed
from pdqat.dual_rules import DualRule
from pdqat.duals import Duals
from pdqat.errors import InputError
from pdqat.layers import Gradient, Network
from pdqat.layers.distances import precise
from pdqat.layers.draws import Draws
from pdqat.layers.recorder import FEWEST_ROWS, Recorder
from pdqat.layers.transfer import completed, with_plan
from pdqat.objective import Loss, Objective, Terms
from pdqat.precision import Plan


class Lagrangian(nn.Module):
    """Task loss plus multiplier times slack of every bound.

    Args:
        net: a prepared network; every one of its plans is constrained.
        loss: the task loss of (output, target), a mean over the batch.
        constraints: what to require; by default PDQAT with output and layer constraints.
        gradient: what the output constraint's gradient through f^q may reach. "exact": rounding has gradient zero.
            "norms": affine parameters of the plans' own batch norms follow a straight-through gradient, weights feel
            nothing of f^q before its last rounding. "straight-through" (the default): weights follow it too, which has
            given the most accuracy.
        duals: how multipliers follow slacks, such as `NuPI(rate=0.01, damping=1.0)`; by default `Ascent()`.
        objective: whose task loss is minimised: "low" (the default), which needs the gradient "straight-through", or
            "full" (the paper, and the default with other gradients).
        teacher: a trained module that is called as the model is, in evaluation mode; outputs under a plan are held to
            its outputs instead of those of f. With the objective "low", f is then not computed at all.
        layer_sample: in training, layer and channel distances are estimated on so large a random part of each batch,
            but on no fewer than 16 samples.
        view_sample: in training, the view that is not the objective is computed on so large a random part of each
            batch, but on no fewer than 16 samples: an estimate of the same constraints for less work. Below 1, dropout
            draws anew in each view.

    Examples:
        >>> import pdqat
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2))
        >>> x, y = torch.rand(16, 4), torch.arange(16) % 2
        >>> problem = pdqat.Lagrangian(pdqat.prepare(model, x, bits=4), nn.functional.cross_entropy)
        >>> problem(x, y).backward()
        >>> list(problem.duals.named())
        ['4-bit/output', '4-bit/layer/1']
    """

    distance_sum: Tensor
    samples: Tensor

    def __init__(
        self,
        net: Network,
        loss: Loss,
        constraints: Sequence[Constraint] | None = None,
        *,
        gradient: Gradient | str = Gradient.STRAIGHT_THROUGH,
        duals: DualRule | None = None,
        objective: Objective | str | None = None,
        teacher: nn.Module | None = None,
        layer_sample: float = 1.0,
        view_sample: float = 1.0,
    ) -> None:
        super().__init__()
        if not isinstance(net, Network):
            raise InputError(f"a Lagrangian is of a prepared network, not of a {type(net).__name__}; use pdqat.prepare")
        if not callable(loss):
            raise InputError(f"the loss must be a function of (output, target), not {loss!r}")
        if not isinstance(constraints, Sequence | None):
            raise InputError(f"constraints is a list, such as [LayerConstraint()], not {constraints!r}")
        self.net = net
        self.loss = loss
        self.constraints = tuple((OutputConstraint(), LayerConstraint()) if constraints is None else constraints)
        if not self.constraints:
            raise InputError("a Lagrangian needs at least one constraint; without any, train on the task loss itself")
        for constraint in self.constraints:
            if not isinstance(constraint, Constraint):
                raise InputError(f"a constraint is a pdqat.Constraint, such as LayerConstraint(), not {constraint!r}")
        shape = net.preparation.output_shape
        self.constraints = tuple(
            constraint.for_task(loss, shape) if isinstance(constraint, OutputConstraint) else constraint
            for constraint in self.constraints
        )
        self.gradient = choice(Gradient, gradient, "gradient")
        goes_through_rounding = self.gradient is Gradient.STRAIGHT_THROUGH
        usual = Objective.LOW if goes_through_rounding else Objective.FULL
        self.objective = usual if objective is None else choice(Objective, objective, "objective")
        if self.objective is Objective.LOW and not goes_through_rounding:
            raise InputError(
                "the objective 'low' trains through rounding: it needs the gradient 'straight-through', not "
                f"{self.gradient.value!r}"
            )
        if not isinstance(teacher, nn.Module | None):
            raise InputError(f"the teacher is a trained torch.nn.Module, not {teacher!r}")
        self._teacher = (
            None if teacher is None else teacher.eval(),
        )  # in a tuple, so that its weights are no part of this module's state
        for name, part in (("layer_sample", layer_sample), ("view_sample", view_sample)):
            if isinstance(part, bool) or not (isinstance(part, float | int) and 0 < part <= 1):
                raise InputError(f"{name} is the part of a batch, above 0 and at most 1, not {part!r}")
        self.layer_sample = layer_sample
        self.view_sample = view_sample
        self._resolved = {
            plan.name: [(constraint, constraint.resolve(net, plan)) for constraint in self.constraints]
            for plan in net.plans.values()
        }
        self._requests = {
            plan.name: [
                request for constraint in self.constraints if (request := constraint.request(net, plan)) is not None
            ]
            for plan in net.plans.values()
        }
        bounds = [bound for resolved in self._resolved.values() for _, its_bounds in resolved for bound in its_bounds]
        _check_bounds(bounds)
        if self.objective is Objective.LOW and teacher is None:  # f^q learns from the task, not from f
            bounds = [dataclasses.replace(bound, start=bound.start or 0.0) for bound in bounds]
        self.duals = Duals(bounds, duals)
        self.register_buffer("distance_sum", torch.zeros(len(self.duals.multipliers)))
        self.register_buffer("samples", torch.zeros(()))
        like = next(net.parameters())
        for module in (self.duals, self):
            for name, buffer in list(module.named_buffers(recurse=False)):
                module._buffers[name] = buffer.to(like.device, torch.promote_types(like.dtype, torch.float32))
        # Each rank's own sums: DistributedDataParallel would overwrite them with those of rank 0 in every forward.
        self._ddp_params_and_buffers_to_ignore = ["distance_sum", "samples"]

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """What the constraints resolved to: a bound for every place of every plan, as the duals have them."""
        return self.duals.bounds

    @property
    def tolerances(self) -> Tensor:
        """Of every multiplier's bound: as given, or where its multiplier has brought it."""
        return self.duals.tolerances

    @property
    def teacher(self) -> nn.Module | None:
        """What outputs are held to instead of f's, if anything."""
        return self._teacher[0]

    def _apply(self, fn: Any, recurse: bool = True) -> "Lagrangian":
        """Called by `to`, `double` and the like: the teacher goes along."""
        if self.teacher is not None:
            self.teacher._apply(fn, recurse)  # type: ignore[no-untyped-call]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    @property
    def trains_full(self) -> bool:
        """Whether the full-precision view is computed, and so trained."""
        return self.objective is Objective.FULL or self.teacher is None

    def under_plan(self, plan: Plan) -> "Lagrangian":
        """The same problem with other bits: weights, low-precision norms and multipliers go on, in a copy.

        The output's tolerance stays what it is. Default tolerances of layers follow their bits.

        Args:
            plan: a BitPlan, or what `allocate` returned. Layers that it does not name keep their precision.
        """
        before = self.net.only_plan("change its plan")
        resolved = self._resolved[before.name]
        problem = Lagrangian(
            with_plan(self.net, plan),
            self.loss,
            [constraint.under_other_bits(bounds) for constraint, bounds in resolved],
            gradient=self.gradient,
            duals=self.duals.rule,
            objective=self.objective,
            teacher=self.teacher,
            layer_sample=self.layer_sample,
            view_sample=self.view_sample,
        )
        problem.duals.take_over(self.duals.state_dict())
        problem.training = problem.duals.training = self.training  # the network has its modules' own modes
        return problem

    def check_plan(self, plan: Plan) -> None:
        """Raise InputError if `under_plan(plan)` could not be trained, without making it."""
        before, new = self.net.only_plan("change its plan"), completed(self.net, plan)
        constraints = [constraint.under_other_bits(bounds) for constraint, bounds in self._resolved[before.name]]
        bounds = [bound for constraint in constraints for bound in constraint.resolve(self.net, new)]
        _check_bounds(bounds)
        self.duals.rule.check(bounds)

    def forward(self, inputs: Any, target: Any) -> Tensor:
        """The Lagrangian on a batch. In training it also keeps the sums that `dual_step` averages.

        Several processes have a share of one batch each; the mean of what they return is the Lagrangian on all of it,
        and the mean of their gradients, which DistributedDataParallel takes, is its gradient.
        """
        return reaching(self.share(inputs, target), self.parameters())

    def share(self, inputs: Any, target: Any) -> Tensor:
        """What `forward` returns; parameters that it does not depend on get no gradient. Collective."""
        is_shared = processes() > 1 and (self.training or torch.is_grad_enabled())
        with self.net.state.shared(is_shared):
            terms = self.terms(inputs, target)
        if self.training:
            self.accumulate(terms)
        value = self.value(terms)
        return weighed(value, samples_in(inputs)) if is_shared else value

    def terms(self, inputs: Any, target: Any) -> Terms:
        """The parts, for a batch: one forward in full precision and one under each plan."""
        device = self.duals.multipliers.device
        is_low = self.objective is Objective.LOW
        rows = self._draw_rows(samples_in(inputs), device)
        low_rows, full_rows = (None, rows) if is_low else (rows, None)
        low_inputs = these_rows(inputs, low_rows)
        recorders = {
            name: Recorder(self._requests[name], self._recorded_part, shared=self.net.state.is_shared)
            for name in self.net.plans
        }
        for recorder in recorders.values():
            recorder.draw(samples_in(low_inputs), device)
        draws = Draws(self.training, device)
        outputs: dict[str, Tensor] = {}
        if self.trains_full:
            outputs["full"] = precise(self.net.call(these_rows(inputs, full_rows)))
        held_to = self._taught(these_rows(inputs, rows)) if self.teacher is not None else outputs["full"]
        if self.teacher is None and not is_low:
            held_to = these_rows(held_to, rows)
        compared_target = these_rows(target, rows)
        losses: list[Tensor] = [] if is_low else [self.loss(outputs["full"], target)]
        distances: list[Tensor] = []
        for name, plan in self.net.plans.items():
            draws.repeat()
            with self.net.under(plan, self.gradient, recorders[name]):
                low = outputs[name] = precise(self.net.call(low_inputs))
            if is_low:
                losses.append(self.loss(low, target))
            compared = low if low_rows is rows else these_rows(low, rows)
            sides = Sides(held_to, compared, compared_target, self.loss, recorders[name])
            for constraint, bounds in self._resolved[name]:
                distances += constraint.distances(bounds, sides)
        return Terms(torch.stack(losses).sum(), torch.cat(distances), outputs)

    def _draw_rows(self, size: int, device: torch.device) -> Tensor | None:
        """The samples on which views are compared; None for all of them."""
        count = max(FEWEST_ROWS, round(self.view_sample * size))
        return torch.randperm(size, device=device)[:count] if self.training and count < size else None

    @property
    def _recorded_part(self) -> float:
        """The part of what a low-precision view reads on which its layers are compared."""
        if not self.training:
            return 1.0
        of_batch = 1.0 if self.objective is Objective.LOW else self.view_sample
        return min(1.0, self.layer_sample / of_batch)

    @torch.no_grad()
    def _taught(self, inputs: Any) -> Tensor:
        """The teacher's output."""
        assert self.teacher is not None
        interface = self.net.preparation.interface
        args, kwargs = interface.arguments(inputs)
        return precise(interface.compared(self.teacher(*args, **kwargs)))

    def value(self, terms: Terms) -> Tensor:
        """Task loss + sum of multiplier x slack, + what relaxed tolerances cost."""
        multipliers = self.duals.multipliers
        relaxing = self.duals.relaxation * multipliers.square() / 2
        return terms.loss + (multipliers * (terms.distances - self.tolerances) + relaxing).sum()

    @torch.no_grad()
    def accumulate(self, terms: Terms) -> None:
        """Add a batch to the running mean of the distances, without waiting for the device."""
        size = len(next(iter(terms.outputs.values())))
        self.distance_sum += terms.distances * size
        self.samples += size

    def mean_distances(self) -> Tensor:
        """The mean distances since the last dual step, over all samples of all ranks; before any, the tolerances."""
        sums = total(torch.cat([self.distance_sum, self.samples.view(1)]))
        return torch.where(sums[-1] > 0, sums[:-1] / sums[-1], self.tolerances)

    @torch.no_grad()
    def dual_step(self) -> Tensor:
        """One dual step on the slacks seen since the last one; returns these slacks."""
        slacks = self.mean_distances() - self.tolerances
        self.duals.step(slacks)
        take_from_first([self.duals.multipliers, self.duals.smoothed])  # processors may differ in the last bit
        self.distance_sum.zero_()
        self.samples.zero_()
        return slacks


def _check_bounds(bounds: Sequence[Bound]) -> None:
    if not bounds:
        raise InputError("the constraints apply to nothing: no plan quantises the weights of any layer")
    names = Counter(bound.name for bound in bounds)
    if len(names) < len(bounds):
        raise InputError(f"there are several constraints called {names.most_common(1)[0][0]!r}; one is allowed")
