"""Steps of the weights: own optimizers and schedulers, gradients of several batches, gradients that are shortened."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from own_problem import TRAINING, X, Y, fitted, own_problem
from pdqat.constraints import OutputConstraint
from pdqat.lagrangian import Lagrangian
from pdqat.layers import prepare
from same_run import differences

Batch = tuple[Tensor, Tensor]


def weights(problem: Any) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in problem.net.parameters()]


def without_norms() -> Lagrangian:
    """In float64; its output distance is a mean over samples, and so is its loss."""
    torch.manual_seed(0)
    layers = (nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    net = prepare(nn.Sequential(*layers).double(), X[:8].double(), 2, quantizer="dorefa")
    return Lagrangian(net, F.cross_entropy, [OutputConstraint("squared")], gradient="straight-through")


def in_double(batches: Sequence[Batch]) -> list[Batch]:
    return [(inputs.double(), target) for inputs, target in batches]


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 0.5)


def after(batches: Sequence[Batch], **how: Any) -> list[Tensor]:
    problem = without_norms()
    fitted(problem, batches, validation=batches, epochs=1, optimizer=sgd, **how)
    return weights(problem)


# Own optimizers


def test_an_own_optimizer_takes_the_place_of_adam_as_an_instance_and_as_a_function() -> None:
    makers: list[Callable[[Any], dict[str, Any]]] = [
        lambda _: {"lr": 0.02, "milestones": ()},
        lambda _: {"optimizer": lambda parameters: torch.optim.Adam(parameters, 0.02)},
        lambda problem: {"optimizer": torch.optim.Adam(problem.net.parameters(), 0.02)},
    ]
    states = []
    for maker in makers:
        problem = own_problem()
        fitted(problem, **maker(problem))
        states.append(problem.state_dict())
    assert differences(states[0], states[1]) == differences(states[0], states[2]) == []


def test_an_optimizer_of_some_parameters_moves_only_those() -> None:
    problem, before = own_problem(), own_problem()
    fitted(problem, optimizer=torch.optim.SGD(problem.net.model[4].parameters(), 0.1))  # type: ignore[index]
    moved = [
        name
        for (name, parameter), old in zip(problem.net.model.named_parameters(), weights(before), strict=True)
        if not torch.equal(parameter, old)
    ]
    assert set(moved) == {"4.weight", "4.bias"}


def test_lr_and_schedule_leave_an_own_optimizer_alone() -> None:
    history = fitted(own_problem(), optimizer=sgd, epochs=3, lr=99.0, milestones=(0.5,))
    assert [entry["lr"] for entry in history.epochs] == [0.5, 0.5, 0.5]


def test_the_rate_of_adam_is_that_of_the_schedule() -> None:
    history = fitted(own_problem(), epochs=4, lr=0.02, milestones=(0.5,), decay=0.1)
    assert [entry["lr"] for entry in history.epochs] == pytest.approx([0.02, 0.02, 0.002, 0.002])


@pytest.mark.parametrize(
    ("every", "rates"), [("epoch", [0.5, 0.5 / 2, 0.5 / 3]), ("step", [0.5, 0.5 / 4, 0.5 / 7])], ids=["epoch", "step"]
)
@pytest.mark.parametrize("as_instance", [False, True], ids=["function", "instance"])
def test_an_own_scheduler_steps_once_an_epoch_or_once_a_step(every: str, rates: list[float], as_instance: bool) -> None:
    """Three steps an epoch; the metrics say the rate at the start of the epoch."""

    def scheduler(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda steps: 1 / (1 + steps))

    problem = own_problem()
    optimizer = sgd(problem.net.parameters())
    made = {"optimizer": optimizer, "scheduler": scheduler(optimizer)}
    how = made if as_instance else {"optimizer": sgd, "scheduler": scheduler}
    history = fitted(problem, epochs=3, scheduler_every=every, **how)
    assert [entry["lr"] for entry in history.epochs] == pytest.approx(rates)


def test_a_scheduler_a_step_counts_steps_of_the_weights() -> None:
    """Three batches, two to a step: two steps."""
    problem = own_problem()
    optimizer = sgd(problem.net.parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    fitted(problem, epochs=1, optimizer=optimizer, scheduler=scheduler, scheduler_every="step", accumulate=2)
    assert scheduler.last_epoch == 2


# Several batches to a step


def test_two_half_batches_give_the_step_of_the_whole_one() -> None:
    whole = in_double([(X[:16], Y[:16]), (X[16:32], Y[16:32])])
    halves = in_double([(X[start : start + 8], Y[start : start + 8]) for start in (0, 8, 16, 24)])
    for ours, theirs in zip(after(halves, accumulate=2), after(whole), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    assert any(not torch.equal(*pair) for pair in zip(after(halves), after(whole), strict=True)), "which is not trivial"


class WithoutLength:
    """The same batches, of which the number is not known beforehand."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches

    def __iter__(self) -> Any:
        return iter(self._batches)


@pytest.mark.parametrize("wrap", [list, WithoutLength], ids=["sized", "unsized"])
def test_batches_that_are_left_over_give_the_step_of_their_own_mean(wrap: Any) -> None:
    batches = in_double(TRAINING)
    problem = without_norms().train()
    optimizer = sgd(problem.net.parameters())
    for group in (batches[:2], batches[2:]):
        optimizer.zero_grad()
        torch.stack([problem(*batch) for batch in group]).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    trained = without_norms()
    fitted(trained, wrap(batches), validation=batches, epochs=1, optimizer=sgd, accumulate=2)
    for ours, theirs in zip(weights(trained), weights(problem), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


# Gradients that are shortened


def test_a_gradient_is_shortened_to_the_given_norm_and_keeps_its_direction() -> None:
    batches, start = in_double(TRAINING[:1]), weights(without_norms())

    def way(**how: Any) -> Tensor:
        """The step that was taken, which is -0.5 times the gradient."""
        return torch.cat([(end - begin).flatten() for end, begin in zip(after(batches, **how), start, strict=True)])

    free = way()
    short, long = way(clip_norm=float(free.norm()) * 2 / 10), way(clip_norm=1e6)
    torch.testing.assert_close(short, free / 10, rtol=1e-4, atol=1e-12)  # torch adds 1e-6 to the norm
    assert torch.equal(long, free)


def test_it_is_the_mean_gradient_of_several_batches_that_is_shortened() -> None:
    batches = in_double(TRAINING[:2])
    merged = [(torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches]))]
    for ours, theirs in zip(after(batches, accumulate=2, clip_norm=0.01), after(merged, clip_norm=0.01), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-14)
