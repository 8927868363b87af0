"""What several processes compute of one problem, each its share, and one process all of it.

Each function is called in the processes of a group and without one; what it returns is to be the same.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Sampler, TensorDataset

import pdqat
from interrupted import Snapshots
from kept_log import kept_log
from pdqat import (
    Ascent,
    BlockConstraint,
    ChannelConstraint,
    Constraint,
    Lagrangian,
    LayerConstraint,
    LossConstraint,
    OutputConstraint,
    TaskProblem,
    evaluate,
    fit,
    prepare,
)
from pdqat.distributed import is_first, own_draws, processes, rank, shares, union
from pdqat.errors import InputError
from pdqat.layers.norm_statistics import estimate_statistics
from pdqat.runs.folder import Run
from pdqat.task import Problem
from same_run import assert_same_run

SAMPLES = 11
"""Shared by 2 or 3 processes they are uneven."""
BELOW_OUTPUT = [
    constraint(distance, 0.01)
    for constraint in (LayerConstraint, ChannelConstraint)
    for distance in ("relative", "squared", "absolute")
]
CONSTRAINTS: dict[str, Sequence[Constraint]] = {
    **{f"{it.kind} {it.distance}": [OutputConstraint("kl"), it] for it in BELOW_OUTPUT},
    "block": [OutputConstraint("squared", 0.01), BlockConstraint("relative", 0.01, blocks=["4"])],
    "task loss": [OutputConstraint("cross-entropy"), LossConstraint(0.5)],
    "layers alone": [LayerConstraint("relative", 0.01)],
}


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU()),
        *(nn.Conv2d(4, 5, 3), nn.Sequential(nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 4, 1))),
        *(nn.Flatten(), nn.Linear(16, 3)),
    )


def data(samples: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(samples, 1, 6, 6, dtype=dtype, generator=generator), torch.arange(samples) % 3


def lagrangian(
    constraints: Sequence[Constraint] | None = None, dtype: torch.dtype = torch.float64, objective: str = "low"
) -> Lagrangian:
    """With multipliers that all differ, so that no gradient is left out: the default, or the paper's."""
    net = prepare(model().to(dtype), data(8, dtype)[0], 2, tied_norms=objective == "low")
    problem = Lagrangian(net, F.cross_entropy, constraints, duals=Ascent(0.5), objective=objective)
    problem.duals.multipliers.copy_(torch.linspace(0.5, 1.5, len(problem.duals.multipliers)))
    return problem


def gradients_of(problem: Problem, samples: int = SAMPLES) -> dict[str, Tensor]:
    """Of one batch; 0 where there is none, as plain DistributedDataParallel says it."""
    module = problem if processes() == 1 else DistributedDataParallel(problem)
    dtype = next(problem.parameters()).dtype
    for _ in range(2):  # DistributedDataParallel notices in the second step what the first one has left undone
        problem.zero_grad()
        for inputs, target in shares([data(samples, dtype)]):
            module(inputs, target).backward()
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in problem.net.named_parameters()
    }


def gradients(_: Path) -> dict[str, dict[str, Tensor]]:
    return _gradients(torch.float64)


def gradients_in_float32(_: Path) -> dict[str, dict[str, Tensor]]:
    return _gradients(torch.float32)


def _gradients(dtype: torch.dtype) -> dict[str, dict[str, Tensor]]:
    """Of every kind of constraint and both objectives."""
    return {
        f"{name}, {objective}": gradients_of(lagrangian(constraints, dtype, objective).eval())
        for name, constraints in CONSTRAINTS.items()
        for objective in ("low", "full")
    }


def gradients_of_the_task(_: Path) -> dict[str, dict[str, Tensor]]:
    problem = lagrangian()
    return {
        "straight-through": gradients_of(TaskProblem(problem.net, F.cross_entropy).eval()),
        "full": gradients_of(TaskProblem(problem.net, F.cross_entropy, low=False).eval()),
    }


def gradients_in_training(_: Path) -> dict[str, dict[str, Tensor]]:
    """With norms by the statistics of the batch, for distances in front of norms and behind them."""
    made = {name: lagrangian(CONSTRAINTS[name]).train() for name in ("layer relative", "layer squared", "block")}
    found = {name: gradients_of(problem) for name, problem in made.items()}
    statistics = {f"{name}, statistics": dict(problem.net.named_buffers()) for name, problem in made.items()}
    return {**found, **statistics}


def multipliers(_: Path) -> list[Tensor]:
    """After steps on batches of different sizes."""
    problem = lagrangian()
    steps = []
    for _epoch in range(2):
        for inputs, target in shares([data(SAMPLES), data(7)]):
            problem(inputs, target)
        problem.dual_step()
        steps.append(problem.duals.multipliers.clone())
    return steps


def evaluations(_: Path) -> list[Any]:
    """Of more and fewer batches than there are processes, the last of them smaller; bit for bit."""
    problem = lagrangian()
    measured = []
    for samples in (1, 4, 10, 13):
        inputs, target = data(samples)
        result = evaluate(problem, DataLoader(TensorDataset(inputs, target), batch_size=4), shared=True)
        measured.append([result.samples, result.loss, result.scores, result.distances])
    return measured


def statistics(_: Path) -> dict[str, Tensor]:
    """Of norms, estimated on batches of which one is smaller."""
    problem = lagrangian()
    inputs, target = data(18)
    loader = DataLoader(TensorDataset(inputs, target), batch_size=4)
    estimate_statistics(problem.net, problem.net.only_plan("test"), loader, 5)
    return {name: buffer.to(torch.float64) for name, buffer in problem.net.named_buffers()}


def train(problem: Problem, out: Path | None = None, **options: Any) -> pdqat.training.History:
    """Two epochs of shuffled batches, the last of them smaller."""
    inputs, target = data(29)
    loader = DataLoader(TensorDataset(inputs, target), batch_size=8, shuffle=True, drop_last=False)
    validation = DataLoader(TensorDataset(*data(9)), batch_size=4)
    options = {"epochs": 2, "lr": 1e-3, "norm_batches": 3, **options}
    return fit(problem, loader, validation=validation, progress=False, out=out, **options)


def trainings(folder: Path) -> dict[str, Any]:
    """What trainings of several kinds end with; whatever is in `ranks` has to be the same, to the bit, in all."""
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "fresh": {"slack_batches": [data(5), data(3)], "accumulate": 2, "clip_norm": 1.0},
        "stages": {"epochs": 3, "warm_up": 0.4, "progressive": [4], "flip_rate": 0.01, "dual_every": 2},
    }
    ended = {}
    for name, options in kinds.items():
        problem = lagrangian()
        history = train(problem, folder / name, **options)
        ended[name] = {
            "epochs": [[entry["objective"], entry["loss"], entry["accuracy"]] for entry in history.epochs],
            "multipliers": problem.duals.multipliers.clone(),
            "weights": {key: value.double() for key, value in problem.net.state_dict().items()},
        }
    return ended


def resumed(folder: Path) -> list[str]:
    """Where a training that was killed after its first epoch and continued differs from one that was not."""
    whole, stopped = folder / "whole", folder / "stopped"
    train(lagrangian(), whole, callbacks=[Snapshots(whole, stopped)])
    train(lagrangian(), stopped / "1", resume=True)
    if not is_first():
        return []
    assert_same_run(Run.open(whole), Run.open(stopped / "1"))
    return [path.name for path in sorted(whole.iterdir())]


def logs(_: Path) -> list[int]:
    """The epochs that a log of this process holds."""
    log, kept = kept_log()
    train(lagrangian(), callbacks=[log])
    return [*kept.numbers]


def own_norms(_: Path) -> list[Tensor]:
    """Norms by the statistics of each share: nothing that one process would compute, but the same in all."""
    problem = lagrangian()
    train(problem, sync_norms=False)
    return [*problem.state_dict().values()][:-1]


def random_epochs(_: Path) -> list[list[int]]:
    """The samples of each step, all processes together, where forwards draw from the generator that shuffles."""
    steps = []
    loader = DataLoader(TensorDataset(torch.arange(20), torch.arange(20)), batch_size=7, sampler=_Drawn())
    torch.manual_seed(3)
    for step, (inputs, _) in enumerate(shares(loader)):
        if processes() > 1:
            with own_draws(step):
                torch.rand(len(inputs))
        steps.append(sorted(number for part in union({rank(): inputs.tolist()}).values() for number in part))
    return steps


class _Drawn(Sampler[int]):
    """Draws sample after sample."""

    def __iter__(self) -> Iterator[int]:
        return (int(torch.randint(20, ())) for _ in range(20))

    def __len__(self) -> int:
        return 20


def refusals(folder: Path) -> dict[str, str]:
    """What every process hears of input that can't be used."""
    inputs, target = data(12)
    dataset = TensorDataset(inputs, target)
    sampled = DataLoader(dataset, 4, sampler=DistributedSampler(dataset, processes(), rank()))
    (folder / "there").mkdir(exist_ok=True)
    cases: dict[str, Callable[[], object]] = {
        "validation": lambda: fit(lagrangian(), sampled, validation=sampled, epochs=1, progress=False),
        "different": lambda: list(shares([(inputs + rank(), target)])),
        "small": lambda: list(shares([(inputs[:1], target[:1])])),
        "folder": lambda: train(lagrangian(), folder / "there"),
        "compile": lambda: train(lagrangian(), compile=True),
        "loss": lambda: train(lagrangian(), lr=1e200),
    }
    return {name: _refusal(case) for name, case in cases.items()}


def _refusal(case: Callable[[], object]) -> str:
    try:
        case()
    except InputError as error:
        return str(error)
    return ""
