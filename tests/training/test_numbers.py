"""Numbers that go wrong are said where they arise: the step, and the layer, the bound or the batch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pdqat
from counting import BATCHES, counting_problem
from pdqat import Lagrangian
from pdqat.errors import InputError
from pdqat.layers import prepare
from pdqat.runs.checkpoints import load_checkpoint, load_weights, save_checkpoint
from pdqat.runs.folder import Run
from pdqat.training.flat_inputs import flat_inputs
from pdqat.training.gradients import LargestGradients

HOW: dict[str, Any] = {"validation": BATCHES, "epochs": 1, "progress": False}


class Spoilt(torch.autograd.Function):
    """Passes a tensor on, and a gradient that is not a number back."""

    @staticmethod
    def forward(_: Any, given: Tensor) -> Tensor:
        return given.clone()

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return gradient * float("nan")


def problem_of(*layers: nn.Module, bits: int = 2) -> Lagrangian:
    torch.manual_seed(0)
    return Lagrangian(prepare(nn.Sequential(*layers), torch.rand(16, 4), bits), F.cross_entropy)


def test_a_gradient_that_is_not_a_number_is_said_with_its_layer() -> None:
    """Its loss is a number, and so would be that of the next step if it did not move the weights."""
    problem = counting_problem()
    layer = dict(problem.net.model.named_modules())["layers.2"]
    layer.register_forward_hook(lambda module, _, output: output + 0 * Spoilt.apply(module.bias).sum())  # type: ignore[no-untyped-call]
    with pytest.raises(InputError, match=r"the gradient of layers\.2\.bias is not a number at epoch 1, step 1"):
        pdqat.fit(problem, BATCHES, **HOW)


def test_a_lost_loss_is_said_with_the_largest_gradient_before() -> None:
    with pytest.raises(InputError, match=r"the loss is not a number at epoch 1, step \d; .* that of layers\.\d\.\w+, "):
        pdqat.fit(counting_problem(), BATCHES, lr=1e30, **HOW)


def test_inputs_that_are_not_numbers_are_said_with_their_batch() -> None:
    odd = [(x.clone(), y) for x, y in BATCHES]
    odd[1][0][3, 2] = float("inf")
    with pytest.raises(InputError, match="the inputs of training batch 2 hold what is not a number"):
        pdqat.fit(counting_problem(), odd, **HOW)


def test_validation_inputs_that_are_not_numbers_are_said_with_their_batch() -> None:
    odd = [(x.clone(), y) for x, y in BATCHES]
    odd[1][0][3, 2] = float("nan")
    with pytest.raises(InputError, match="the inputs of validation batch 2 hold what is not a number"):
        pdqat.fit(counting_problem(), BATCHES, **{**HOW, "validation": odd})


def test_a_multiplier_that_runs_away_is_said_with_its_bound() -> None:
    problem = counting_problem()
    name = problem.bounds[-1].name
    problem.duals.named()[name].fill_(2e6)
    with pytest.raises(InputError, match=f"the multiplier of {name} has run away to 2e\\+06 after epoch 1: its bound"):
        pdqat.fit(problem, BATCHES, lr=1e-9, **HOW)


def test_a_batch_of_one_is_refused_with_the_norm_that_it_is_too_small_for() -> None:
    problem = problem_of(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 3))
    batches = [*BATCHES, (BATCHES[0][0][:1], BATCHES[0][1][:1])]
    with pytest.raises(InputError, match=r"the norm 1 has one value of each channel to normalise by: .* 2 samples"):
        pdqat.fit(problem, batches, **HOW)
    layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3)
    images = prepare(nn.Sequential(*layers), torch.rand(2, 1, 8, 8), 2)
    images.train()(torch.rand(1, 1, 8, 8))  # of which there are several values a channel


def test_a_layer_whose_inputs_are_all_outside_of_the_range_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    problem = problem_of(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3))
    assert flat_inputs(problem.net) == []
    bias = problem.net.model.get_parameter("0.bias")
    for offset in (-50.0, 50.0):
        bias.data.fill_(offset)
        assert flat_inputs(problem.net) == ["1"]
    history = pdqat.fit(problem, BATCHES, lr=1e-9, **{**HOW, "progress": True})
    assert history.epochs[0]["flat_inputs"] == ["1"]
    assert "all that 1 reads is outside of its quantiser's range: it passes nothing on" in capsys.readouterr().out


def test_the_largest_gradients_are_those_of_the_epoch() -> None:
    model = nn.Linear(2, 1)
    gradients = LargestGradients(model)
    gradients.look(1)
    assert gradients.first_lost() is None
    assert gradients.largest_before(9) is None, "there are no gradients yet"
    for step, largest in ((2, 3.0), (3, float("inf"))):
        model.weight.grad, model.bias.grad = torch.tensor([[1.0, -largest]]), torch.ones(1)
        gradients.look(step)
    assert gradients.largest_before(3) == ("weight", 3.0)
    assert gradients.first_lost() == (3, "weight")
    gradients.start_epoch()
    assert gradients.first_lost() is None


SPOILS: dict[str, Callable[[dict[str, Any]], Tensor]] = {
    "layers.0.weight": lambda state: state["model"]["layers.0.weight"],
    "calls": lambda state: state["model"]["calls"],
    "duals.multipliers": lambda state: state["duals"]["duals.multipliers"],
}


@pytest.mark.parametrize("name", SPOILS)
def test_weights_that_are_not_numbers_are_refused(name: str, tmp_path: Path) -> None:
    pdqat.fit(counting_problem(), BATCHES, out=tmp_path / "run", **HOW)
    run = Run.open(tmp_path / "run")
    state = load_checkpoint(run.best)
    SPOILS[name](state).view(-1)[0] = float("nan")
    save_checkpoint(run.best, state)
    with pytest.raises(InputError, match=f"best.pt holds what is not a number, in .*{name}"):
        pdqat.load(run.path, counting_problem().net.restore())


@pytest.mark.parametrize("spoilt", [float("nan"), float("inf")])
def test_a_model_that_is_not_of_numbers_is_refused_with_its_layer(spoilt: float, tmp_path: Path) -> None:
    problem = counting_problem()
    with torch.no_grad():
        dict(problem.net.model.named_parameters())["layers.2.weight"].view(-1)[0] = spoilt
    with pytest.raises(InputError, match=r"the problem to train holds what is not a number, in .*layers\.2\.weight"):
        pdqat.fit(problem, BATCHES, **HOW)
    with pytest.raises(InputError, match=r"the problem holds what is not a number, in .*layers\.2\.weight"):
        pdqat.rank(problem, BATCHES)
    with pytest.raises(InputError, match=r"to report on holds what is not a number, in .*layers\.2\.weight"):
        pdqat.report(problem, BATCHES, tmp_path / "report.html")


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_weights_to_start_from_are_numbers(suffix: str, tmp_path: Path) -> None:
    weights = {"stem.weight": torch.ones(2), "head.bias": torch.tensor([0.0, float("nan")])}
    path = tmp_path / f"weights.{suffix}"
    if suffix == "pt":
        torch.save(weights, path)
    else:
        safetensors.torch.save_file(weights, path)
    with pytest.raises(InputError, match=rf"weights\.{suffix} hold what is not a number, in head\.bias"):
        load_weights(path)


def test_a_mask_may_be_infinite(tmp_path: Path) -> None:
    problem = counting_problem()
    problem.net.model.register_buffer("mask", torch.tensor([0.0, -float("inf")]))
    problem.net.model.frozen = nn.Parameter(torch.tensor([-float("inf")]), requires_grad=False)
    pdqat.fit(problem, BATCHES, out=tmp_path / "run", **HOW)


def test_a_training_without_its_last_state_says_that_it_starts_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = {**HOW, "out": tmp_path / "run", "epochs": 2}
    pdqat.fit(counting_problem(), BATCHES, **how)
    first = Run.open(tmp_path / "run").metrics()
    (tmp_path / "run" / "last.pt").unlink()
    history = pdqat.fit(counting_problem(), BATCHES, **{**how, "progress": True}, resume=True)
    assert f"{tmp_path / 'run' / 'last.pt'} is not there: the training starts anew" in capsys.readouterr().out
    assert history.epochs == first
