"""Numbers that are none: a training that has lost its way is stopped before it spoils what was saved.

Each is said where it arises: the step, and the layer, the bound or the batch.
"""

from collections.abc import Sequence
from itertools import islice

import torch
from torch import Tensor

from pdqat.batches import Batches, pairs, tensors_in
from pdqat.distributed import processes, total
from pdqat.errors import InputError
from pdqat.evaluation import Evaluation
from pdqat.lagrangian import Lagrangian
from pdqat.task import Problem
from pdqat.training.gradients import LargestGradients

RUNAWAY = 1e6
"""Beside a multiplier above this a task loss is lost in the rounding of float32."""


def mean_objective(objectives: Sequence[Tensor]) -> float:
    """Of the steps so far, over all processes."""
    return float(total(torch.stack([*objectives])).mean()) / processes()


def check_steps(
    objectives: Sequence[Tensor], gradients: LargestGradients, batches: Batches, epoch: int, kept: str
) -> None:
    """Of the epoch so far; they are looked at now and then only, since that waits for the device."""
    finite = torch.isfinite(total(torch.stack([*objectives])))
    lost = None if bool(finite.all()) else int((~finite).nonzero()[0]) + 1
    step, name = gradients.first_lost() or (0, "")
    if name and (lost is None or step < lost):
        raise InputError(f"the gradient of {name} is not a number at epoch {epoch}, step {step}; {kept}")
    if lost is None:
        return
    batch = _odd_batch(batches, lost)
    if batch is not None:
        raise InputError(f"the inputs of training batch {batch} hold what is not a number, and so the loss is none")
    largest = gradients.largest_before(lost)
    before = f"; the largest gradient before was that of {largest[0]}, {largest[1]:.2g}" if largest else ""
    raise InputError(f"the loss is not a number at epoch {epoch}, step {lost}; {kept}{before}")


def _odd_batch(batches: Batches, upto: int | None = None) -> int | None:
    """The first of so many batches, or of all, whose inputs are not all numbers."""
    for number, (inputs, _) in enumerate(islice(pairs(batches), upto), start=1):
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors_in(inputs)):
            return number
    return None


def check_finite(problem: Problem, measured: Evaluation, batches: Batches, epoch: int, kept: str) -> None:
    """The last step of an epoch may have spoilt what the losses of its steps don't show yet."""
    numbers = {"the validation loss": torch.tensor(measured.loss)}
    numbers |= {f"the {measured.metric.name} of {view}": torch.tensor(it) for view, it in measured.scores.items()}
    if isinstance(problem, Lagrangian):
        named = problem.duals.named
        numbers |= {f"the distance of {name}": part for name, part in named(measured.distances).items()}
        numbers |= {f"the multiplier of {name}": part for name, part in named().items()}
    for what, vector in numbers.items():
        if not bool(torch.isfinite(vector).all()):
            batch = _odd_batch(batches)
            if batch is not None:
                odd = f"the inputs of validation batch {batch} hold what is not a number: so does {what}"
                raise InputError(f"{odd}; {kept}")
            raise InputError(f"{what} is not a number after epoch {epoch}; {kept}")
    if isinstance(problem, Lagrangian):
        for name, part in problem.duals.named().items():
            if float(part.max()) > RUNAWAY:
                raise InputError(
                    f"the multiplier of {name} has run away to {float(part.max()):.2g} after epoch {epoch}: its bound "
                    "can't be met; give it a larger tolerance, or the multipliers a smaller rate"
                )
