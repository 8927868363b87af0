"""Numbers that are none: a training that has lost its way is stopped before it spoils what was saved."""

import torch
from torch import Tensor

from pdqat.errors import InputError
from pdqat.evaluation import Evaluation
from pdqat.lagrangian import Lagrangian
from pdqat.task import Problem


def mean_objective(objectives: list[Tensor], epoch: int, kept: str) -> float:
    """Of the epoch so far; objectives are looked at now and then only, since that waits for the device."""
    stacked = torch.stack(objectives)
    finite = torch.isfinite(stacked)
    if not bool(finite.all()):
        step = int((~finite).nonzero()[0]) + 1
        raise InputError(f"the loss is not a number at epoch {epoch}, step {step}; {kept}")
    return float(stacked.mean())


def check_finite(problem: Problem, measured: Evaluation, epoch: int, kept: str) -> None:
    """The last step of an epoch may have spoilt what the losses of its steps don't show yet."""
    numbers = {"the validation loss": torch.tensor(measured.loss)}
    numbers |= {f"the {measured.metric.name} of {view}": torch.tensor(it) for view, it in measured.scores.items()}
    if isinstance(problem, Lagrangian):
        named = problem.duals.named
        numbers |= {f"the distance of {name}": part for name, part in named(measured.distances).items()}
        numbers |= {f"the multiplier of {name}": part for name, part in named().items()}
    for what, vector in numbers.items():
        if not bool(torch.isfinite(vector).all()):
            raise InputError(f"{what} is not a number after epoch {epoch}; {kept}")
