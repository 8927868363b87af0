"""The task loss alone as a problem: full precision by itself, or straight-through training of low precision."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from pdqat.batches import samples_in
from pdqat.constraints import Bound, OutputConstraint
from pdqat.distributed import processes, reaching, weighed
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import Gradient, Network
from pdqat.layers.distances import precise
from pdqat.layers.transfer import with_plan
from pdqat.objective import Loss, Terms
from pdqat.precision import Plan


class TaskProblem(nn.Module):
    """The task loss of one kind of view: what others train, to compare with.

    Args:
        net: a prepared network.
        loss: the task loss of (output, target), a mean over the batch.
        low: train every plan by straight-through gradient (the usual quantization-aware training), rather than the
            full-precision view.
    """

    bounds: ClassVar[tuple[Bound, ...]] = ()

    def __init__(self, net: Network, loss: Loss, low: bool = True) -> None:
        super().__init__()
        self.net = net
        self.loss = loss
        self.low = low

    def forward(self, inputs: Any, target: Any) -> Tensor:
        """The loss on a batch, or on this process's share of it, as in `Lagrangian.forward`."""
        return reaching(self.share(inputs, target), self.parameters())

    def share(self, inputs: Any, target: Any) -> Tensor:
        """What `forward` returns; parameters that it does not depend on get no gradient. Collective."""
        is_shared = processes() > 1 and (self.training or torch.is_grad_enabled())
        with self.net.state.shared(is_shared):
            value = self.value(self.terms(inputs, target))
        return weighed(value, samples_in(inputs)) if is_shared else value

    def terms(self, inputs: Any, target: Any) -> Terms:
        """The loss and the outputs of the views that are trained."""
        outputs: dict[str, Tensor] = {}
        for name, plan in self.net.plans.items() if self.low else [("full", None)]:
            with self.net.under(plan, Gradient.STRAIGHT_THROUGH):
                outputs[name] = precise(self.net.call(inputs))
        loss = torch.stack([self.loss(output, target) for output in outputs.values()]).sum()
        return Terms(loss, loss.new_zeros(0), outputs)

    def value(self, terms: Terms) -> Tensor:
        """The loss itself."""
        return terms.loss

    def under_plan(self, plan: Plan) -> "TaskProblem":
        """The same problem with other bits: weights and low-precision norms go on, in a copy."""
        problem = TaskProblem(with_plan(self.net, plan), self.loss, self.low)
        problem.training = self.training  # its modules have the modes of this one's
        return problem


Problem = Lagrangian | TaskProblem
"""What can be trained, evaluated, ranked and planned for."""


def trains_low(problem: Problem) -> bool:
    """Whether low precision is trained, and not full precision alone."""
    return isinstance(problem, Lagrangian) or problem.low


def class_dim_of(problem: Problem) -> int | None:
    """The dimension of the output in which classes stand, where a problem says so."""
    constraints = problem.constraints if isinstance(problem, Lagrangian) else ()
    return next((it.class_dim for it in constraints if isinstance(it, OutputConstraint)), None)


def check_problem(given: object) -> None:
    """Raise InputError if it is none."""
    if not isinstance(given, Problem):
        raise InputError(f"a Lagrangian or a TaskProblem is needed, not a {type(given).__name__}")


def check_numbers(problem: Problem, source: str) -> None:
    """Refuse weights and multipliers with which everything would be computed, and all of it be nonsense."""
    for name, tensor in problem.state_dict(keep_vars=True).items():
        if not isinstance(tensor, Tensor):
            continue
        is_trained = isinstance(tensor, Parameter) and tensor.requires_grad
        may_be_infinite = not is_trained and name.startswith("net.")  # such as a mask
        is_number = ~torch.isnan(tensor) if may_be_infinite else torch.isfinite(tensor)
        if not bool(is_number.all()):
            raise InputError(f"{source} holds what is not a number, in {name.removeprefix('net.')}")
