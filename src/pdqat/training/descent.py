"""Descent: the steps of the weights, by an optimiser and its learning rate, on a problem that may be compiled."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from pdqat.batches import on_device, samples_in
from pdqat.distributed import own_draws, processes, take_from_first
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.task import Problem, trains_low
from pdqat.training.flips import FlipControl
from pdqat.training.gradients import LargestGradients
from pdqat.training.muon import muon_for
from pdqat.training.schedule import flip_target, learning_rate
from pdqat.training.settings import OptimizerName, Settings

OptimizerLike = Optimizer | Callable[[Iterable[Parameter]], Optimizer]
SchedulerLike = LRScheduler | Callable[[Optimizer], LRScheduler]


class Descent:
    """Primal steps on one problem; `fit` says what optimizer, scheduler and scheduler_every are."""

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        compiled: bool,
        optimizer: OptimizerLike | None = None,
        scheduler: SchedulerLike | None = None,
        scheduler_every: str = "epoch",
    ) -> None:
        if scheduler_every not in ("epoch", "step"):
            raise InputError(f"scheduler_every is 'epoch' or 'step', not {scheduler_every!r}")
        if scheduler is not None and optimizer is None:
            raise InputError("a scheduler is given without an optimizer; give both, or lr and schedule")
        self._problem = problem
        self._settings = settings
        self._has_own_rate = optimizer is None
        self._optimizer = self._made(optimizer)
        self._scheduler = self._scheduled(scheduler)
        self._check_parameters()
        self._scheduler_every = scheduler_every
        self._flips: FlipControl | None = None
        if settings.flip_rate is not None and trains_low(problem):
            self._flips = FlipControl(problem.net, settings.flip_rate)
        problem.net.state.sync_norms = settings.sync_norms
        self._waiting = 0
        self._step = 0
        self.gradients = LargestGradients(problem.net.model)
        self._epoch = 0.0
        self._largest_batch = 0
        self._eager: Any = problem if processes() == 1 else _over_processes(problem)
        self._value: Any = self._eager
        self.terms: Any = None
        """The problem's terms, compiled; None where it is not."""
        if compiled:
            self._value = torch.compile(problem, fullgraph=True, dynamic=False)
            self.terms = torch.compile(problem.terms, fullgraph=True, dynamic=False)

    def _made(self, optimizer: OptimizerLike | None) -> Optimizer:
        parameters = self._problem.net.parameters()
        if optimizer is None and self._settings.optimizer is OptimizerName.MUON:
            return muon_for(self._problem.net, self._settings.lr)
        if optimizer is None:
            return torch.optim.Adam(parameters, self._settings.lr)
        made = optimizer(parameters) if callable(optimizer) else optimizer
        if not isinstance(made, Optimizer):
            raise InputError(
                f"optimizer is a torch optimizer, or a function of parameters that makes one, not {made!r}"
            )
        return made

    def _scheduled(self, scheduler: SchedulerLike | None) -> LRScheduler | None:
        made = scheduler(self._optimizer) if callable(scheduler) else scheduler
        if not isinstance(made, LRScheduler | None):
            raise InputError(
                f"scheduler is one of torch's, or a function of the optimizer that makes one, not {made!r}"
            )
        return made

    def _check_parameters(self) -> None:
        """An optimizer of other parameters, such as those of the problem before `under_plan`, would train nothing."""
        own = set(self._problem.net.parameters())
        held = [parameter for group in self._optimizer.param_groups for parameter in group["params"]]
        if not held or not own.issuperset(held):
            raise InputError(
                "the optimizer holds parameters that are not the problem's; make it of problem.net.parameters(), or "
                "give a function of parameters that makes it"
            )
        if self._scheduler is not None and getattr(self._scheduler, "optimizer", None) is not self._optimizer:
            raise InputError("the scheduler is of another optimizer than the one that is given")

    def start_epoch(self, epoch: int) -> float:
        """Forget gradients that are left from elsewhere; returns the learning rate that the epoch starts with."""
        self._optimizer.zero_grad()
        self._waiting = self._step = 0
        self.gradients.start_epoch()
        if self._flips is not None:
            self._flips.start_epoch()
        rate = self._optimizer.param_groups[0]["lr"]
        return learning_rate(self._settings, epoch) if self._has_own_rate else float(rate)

    def step(self, inputs: Any, target: Any, epoch: float) -> Tensor:
        """Take a batch after so many epochs, whole or in part; returns what was minimised."""
        self._epoch = epoch
        if self._has_own_rate:
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate(self._settings, epoch)
        with own_draws(self._step):
            value = self._objective(inputs, target)
        self._step += 1
        share = value if self._settings.accumulate == 1 else value / self._settings.accumulate
        share.backward()  # type: ignore[no-untyped-call]
        self._waiting += 1
        if self._waiting == self._settings.accumulate:
            self._move()
        return value.detach()

    def end_epoch(self) -> dict[str, float]:
        """Move by the gradients of batches that were too few for a step of their own; returns what is known of steps.

        That is the flip rate, where it is controlled.
        """
        if self._waiting:
            self._move()
        if self._scheduler is not None and self._scheduler_every == "epoch":
            self._scheduler.step()
        take_from_first(self._problem.net.buffers())  # norms of their own have seen one share each
        return {} if self._flips is None else {"flip_rate": self._flips.mean_rate()}

    def state(self) -> dict[str, Any]:
        """What continuing needs."""
        scheduler = {} if self._scheduler is None else {"scheduler": self._scheduler.state_dict()}
        flips = {} if self._flips is None else {"flips": self._flips.part}
        return {"optimizer": self._optimizer.state_dict(), **scheduler, **flips}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state; what torch raises for another optimizer's goes through."""
        stored = state["optimizer"]
        if self._has_own_rate:  # the options are ours to say, so that none is taken from a file
            groups = self._optimizer.state_dict()["param_groups"]
            if [group["params"] for group in stored["param_groups"]] != [group["params"] for group in groups]:
                raise ValueError("it is of other parameters")
            stored = {"state": stored["state"], "param_groups": groups}
        self._optimizer.load_state_dict(stored)
        for group in self._optimizer.param_groups:  # torch takes the state of another kind of optimizer for its own
            _ = [group[key] for key in self._optimizer.defaults]
        if self._has_own_rate:
            self._check_moments()
        if self._scheduler is not None:
            self._scheduler.load_state_dict(state["scheduler"])
        if self._flips is not None and "flips" in state:  # the warm-up has none
            self._flips.part.copy_(state["flips"])

    def _check_moments(self) -> None:
        """Raise ValueError if the optimizer would stumble over its state in the first step."""
        for group in self._optimizer.param_groups:
            names = ("step", "momentum") if group.get("orthogonal") else ("step", "exp_avg", "exp_avg_sq")
            for parameter in group["params"]:
                self._check_moments_of(parameter, names)

    def _check_moments_of(self, parameter: Parameter, names: tuple[str, ...]) -> None:
        moments = self._optimizer.state.get(parameter)
        if moments is None:  # it has had no gradient
            return
        shapes = {name: () if name == "step" else parameter.shape for name in names}
        if {name: moment.shape for name, moment in moments.items()} != shapes:
            raise ValueError("it is of parameters of another shape, or of another optimizer")
        if not all(moment.is_floating_point() and bool(moment.isfinite().all()) for moment in moments.values()):
            raise ValueError("it holds what is not a number")
        if moments["step"] < 0:  # the first step divides by 1 - beta^(step + 1)
            raise ValueError("it has taken fewer than no steps")

    def _objective(self, inputs: Any, target: Any) -> Tensor:
        """On a batch; one smaller than the largest so far is not worth compiling for."""
        device = next(self._problem.net.parameters()).device
        size = samples_in(inputs)
        self._largest_batch = max(self._largest_batch, size)
        compute = self._value if size == self._largest_batch else self._eager
        with torch.autocast(device.type, torch.bfloat16, enabled=self._settings.amp):
            value: Tensor = compute(on_device(inputs, device), on_device(target, device))
        return value

    def _move(self) -> None:
        """One step of the weights, on the mean gradient of the batches that wait."""
        parameters = list(self._problem.net.parameters())
        if self._waiting < self._settings.accumulate:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad *= self._settings.accumulate / self._waiting
        self.gradients.look(self._step)
        if self._settings.clip_norm is not None:
            clip_grad_norm_(parameters, self._settings.clip_norm)
        if self._flips is None:
            self._optimizer.step()
        else:
            self._flips.step(self._optimizer, flip_target(self._settings, self._epoch))
        self._optimizer.zero_grad()
        self._waiting = 0
        if self._scheduler is not None and self._scheduler_every == "step":
            self._scheduler.step()


class _Share(nn.Module):
    """A problem whose parameters without a gradient keep none, as in one process."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem
        # DistributedDataParallel looks for parameters without a gradient, and warns where it finds none.
        self.without_gradient = Parameter(torch.zeros((), device=next(problem.parameters()).device))
        ignored = problem._ddp_params_and_buffers_to_ignore if isinstance(problem, Lagrangian) else []
        self._ddp_params_and_buffers_to_ignore = [f"problem.{name}" for name in ignored]

    def forward(self, inputs: Any, target: Any) -> Tensor:
        return self.problem.share(inputs, target)


def _over_processes(problem: Problem) -> DistributedDataParallel:
    """Starts all processes from the first one's state, and averages their gradients."""
    # A 1x1 weight is the same in memory with channels last or not, but torch calls the layouts different.
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides", UserWarning)
    return DistributedDataParallel(_Share(problem), find_unused_parameters=True)
