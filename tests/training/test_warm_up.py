"""Full precision first, then the problem: in one run, under one schedule, with one optimiser."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from interrupted import Interrupt
from pdqat import Lagrangian, TaskProblem, fit, prepare
from pdqat.errors import InputError
from pdqat.task import Problem
from pdqat.training.replanning import Replanning
from small_problems import Perceptron, drawn

INPUTS, LABELS = drawn(24, 6), torch.arange(24) % 3
BATCHES = [(INPUTS[:12], LABELS[:12]), (INPUTS[12:], LABELS[12:])]


def problem(low: bool | None = None, quantizer: str = "dorefa") -> Problem:
    torch.manual_seed(0)
    net = prepare(Perceptron(), INPUTS, bits=2, quantizer=quantizer)
    return Lagrangian(net, F.cross_entropy) if low is None else TaskProblem(net, F.cross_entropy, low=low)


def trained(given: Problem, epochs: int = 3, **options: Any) -> Any:
    return fit(given, BATCHES, validation=BATCHES, epochs=epochs, seed=1, progress=False, **options)


def test_it_is_full_precision_training_at_first(tmp_path: Path) -> None:
    history = trained(problem(), warm_up=0.67, lr=0.01, schedule="one-cycle", out=tmp_path / "run")
    alone = trained(problem(low=False), lr=0.01, schedule="one-cycle")
    for mine, theirs in zip(history.epochs[:2], alone.epochs[:2], strict=True):
        assert (mine["objective"], mine["loss"], mine["lr"]) == (theirs["objective"], theirs["loss"], theirs["lr"])
        assert (list(mine["accuracy"]), mine["constraints"]) == (["full"], [])
    assert list(history.epochs[2]["accuracy"]) == ["full", "2-bit"]
    assert history.summary["chosen_epoch"] == 3, "the best epoch is one of low precision"


@pytest.mark.parametrize("quantizer", ["dorefa", "lsq"])
def test_low_precision_starts_from_what_full_precision_has_learned(quantizer: str) -> None:
    given = problem(low=True, quantizer=quantizer)
    fresh = problem(low=False, quantizer=quantizer)

    def rate_zero(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, 0.0)

    torch.manual_seed(5)
    with torch.no_grad():
        for first, second in zip(given.net.parameters(), fresh.net.parameters(), strict=True):
            first.add_(0.3 * torch.randn_like(first))
            second.copy_(first)
    trained(given, epochs=2, warm_up=0.5, optimizer=rate_zero)
    trained(fresh, epochs=1, optimizer=rate_zero)  # norms have seen the batches
    plain = fresh.net.restore()
    expected = prepare(plain, INPUTS, bits=2, quantizer=quantizer)
    for name, parameter in expected.named_parameters():
        torch.testing.assert_close(dict(given.net.named_parameters())[name], parameter, msg=name)


def test_a_training_with_a_warm_up_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    options: dict[str, Any] = {"warm_up": 0.5, "norm_batches": 1, "lr": 0.01}
    whole = trained(problem(), epochs=4, **options)
    for stopped in (1, 2, 3):
        out = tmp_path / str(stopped)
        with pytest.raises(KeyboardInterrupt):
            trained(problem(), epochs=4, out=out, callbacks=[Interrupt(stopped, at_step=False)], **options)
        continued = trained(problem(), epochs=4, out=out, resume=True, **options)
        assert continued.epochs == whole.epochs


def test_more_epochs_would_move_the_end_of_the_warm_up(tmp_path: Path) -> None:
    trained(problem(), epochs=2, warm_up=0.5, out=tmp_path / "run")
    with pytest.raises(InputError, match="its epochs is 2, here it is 4"):
        trained(problem(), epochs=4, warm_up=0.5, out=tmp_path / "run", resume=True)


def test_norms_are_estimated_anew_before_each_validation() -> None:
    history = trained(problem(), epochs=1, norm_batches=2, lr=1e-9)
    lagging = trained(problem(), epochs=1, norm_batches=0, lr=1e-9)
    norm = "1.views.2-bit.running_mean"
    estimated, running = (it.problem.net.state_dict() for it in (history, lagging))
    first = history.problem.net.model.get_submodule("0")
    expected = torch.stack([first(inputs).mean(0).detach() for inputs, _ in BATCHES])
    torch.testing.assert_close(estimated[norm], expected.mean(0))
    assert not torch.allclose(running[norm], estimated[norm])


@pytest.mark.parametrize("part", [-0.1, 1.0, True, "half"])
def test_what_is_no_part_of_the_epochs_is_refused(part: Any) -> None:
    with pytest.raises(InputError, match="warm_up is a part of the epochs, from 0 to below 1"):
        trained(problem(), warm_up=part)


def test_bits_are_not_chosen_before_low_precision_is_trained() -> None:
    with pytest.raises(InputError, match="the first 3 are in full precision"):
        trained(problem(), epochs=6, warm_up=0.5, replanning=Replanning("2.5 bits", at=(0.3, 0.6)))
