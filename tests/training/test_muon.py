"""Muon: orthogonal steps of weights that keep their norms, against the singular value decomposition."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.utils import parametrizations

from interrupted import Snapshots
from own_problem import fitted, own_problem
from pdqat import TaskProblem, prepare
from pdqat.errors import InputError
from pdqat.runs.folder import Run
from pdqat.training.muon import ITERATIONS, MOMENTUM, Muon, muon_for, orthogonal
from same_run import assert_same_run, differences


def of_singular_values(matrix: Tensor) -> Tensor:
    """The polynomial on each singular value by itself: an independent transcription of `orthogonal`."""
    left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    values = values / values.norm()
    for _ in range(ITERATIONS):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    made: Tensor = left @ torch.diag(values) @ right
    return made


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31))
def test_directions_stay_and_their_sizes_come_near_one(rows: int, columns: int, seed: int) -> None:
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    made = orthogonal(matrix)
    torch.testing.assert_close(made.double(), of_singular_values(matrix), atol=1e-3, rtol=0)
    values = torch.linalg.svdvals(matrix)
    counted = int((values > 0.02 * values.norm()).sum())
    near = torch.linalg.svdvals(made)[:counted]
    assert bool(((near > 0.5) & (near < 1.3)).all())


def test_a_matrix_of_zeros_stays_one() -> None:
    assert orthogonal(torch.zeros(2, 3)).tolist() == [[0.0] * 3] * 2


def stepped(weight: Tensor, gradients: list[Tensor], lr: float) -> Tensor:
    """The weight after a step for each gradient."""
    parameter = Parameter(weight.clone())
    optimizer = Muon([parameter], [], lr)
    for gradient in gradients:
        parameter.grad = gradient
        optimizer.step()
    return parameter.detach()


def test_two_steps_are_those_of_the_equation() -> None:
    torch.manual_seed(0)
    weight, gradients = torch.randn(4, 2, 3, 3), [torch.randn(4, 2, 3, 3) for _ in range(2)]
    expected, momentum = weight.flatten(1).double(), torch.zeros(4, 18, dtype=torch.float64)
    for gradient in gradients:
        momentum = MOMENTUM * momentum + gradient.flatten(1)
        direction = of_singular_values(gradient.flatten(1) + MOMENTUM * momentum)
        moved = expected - 0.02 * expected.norm() / direction.norm() * direction
        expected = moved * expected.norm() / moved.norm()
    torch.testing.assert_close(
        stepped(weight, gradients, 0.02).flatten(1).double(), expected, atol=1e-4, rtol=0, check_dtype=False
    )


def test_a_step_across_a_weight_turns_it_by_the_angle_of_the_rate() -> None:
    """A weight of one row and a gradient at right angles to it: the tangent of the angle is lr."""
    weight, gradient = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 5.0]])
    turned = stepped(weight, [gradient], 0.1)
    angle = math.atan(0.1)
    torch.testing.assert_close(turned, 2 * torch.tensor([[math.cos(angle), -math.sin(angle)]]))


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_neither_the_size_of_a_weight_nor_that_of_its_gradient_matters(
    weight_size: float, gradient_size: float
) -> None:
    torch.manual_seed(1)
    weight, gradient = torch.randn(3, 5), torch.randn(3, 5)
    once = stepped(weight, [gradient], 0.01)
    scaled = stepped(weight_size * weight, [gradient_size * gradient], 0.01)
    if weight_size * weight.norm() > 0.01 * 3**0.5:
        torch.testing.assert_close(scaled / weight_size, once, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(scaled.norm(), weight_size * weight.norm(), atol=0, rtol=1e-5)


def test_a_weight_of_zeros_begins() -> None:
    after = stepped(torch.zeros(4, 4), [torch.eye(4)], 0.01)
    assert float(after.norm()) == pytest.approx(0.01 * 2)
    assert bool((after.diagonal() < 0).all())


def test_a_gradient_of_zeros_moves_nothing() -> None:
    weight = torch.randn(3, 3, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(stepped(weight, [torch.zeros(3, 3)], 0.1), weight)


def test_the_others_take_the_steps_of_adam_and_gradients_stay() -> None:
    torch.manual_seed(0)
    start, gradient = torch.randn(5), torch.randn(5)
    alone, beside, matrix = Parameter(start.clone()), Parameter(start.clone()), Parameter(torch.randn(2, 2))
    adam, muon = torch.optim.Adam([alone], 0.01), Muon([matrix], [beside], 0.01)
    for _ in range(3):
        alone.grad, beside.grad, matrix.grad = gradient.clone(), gradient.clone(), torch.ones(2, 2)
        adam.step()
        muon.step()
        assert matrix.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert torch.equal(alone, beside)


def test_a_closure_is_called_with_gradients_on() -> None:
    weight = Parameter(torch.eye(2))
    optimizer = Muon([weight], [], 0.1)

    def loss() -> float:
        value = weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach())

    assert optimizer.step(loss) == 2.0
    assert weight.grad is not None


def test_weights_that_a_batch_norm_follows_are_matrices_but_for_embeddings_and_depthwise_filters() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.depthwise = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8)
            self.grouped, self.alone = nn.Conv2d(8, 8, 1, groups=2), nn.Conv2d(8, 8, 1)
            self.branch, self.made = nn.Conv2d(8, 8, 1), parametrizations.weight_norm(nn.Conv2d(8, 8, 1))
            self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(5))
            self.last = nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            x = self.norms[1](self.depthwise(self.norms[0](self.first(x)).relu())).relu()
            x = self.alone(self.norms[2](self.grouped(x)).relu()).relu()
            x = self.norms[4](self.made(self.norms[3](x + self.branch(x)).relu()))
            scores: Tensor = self.last(x.mean((2, 3)))
            return scores

    model = Net()
    net = prepare(model, torch.rand(4, 3, 8, 8), bits=2, layers={"last": 8})
    matrices, others = (group["params"] for group in muon_for(net, 0.01).param_groups)
    assert matrices == [model.first.weight, model.grouped.weight, model.branch.weight]
    assert len(matrices) + len(others) == len(list(net.parameters()))

    texts = nn.Sequential(nn.Embedding(5, 4), nn.BatchNorm1d(3), nn.Linear(4, 4), nn.BatchNorm1d(3), nn.Linear(4, 2))
    net = prepare(texts, torch.randint(5, (4, 3)), bits=4, layers={"0": 4})
    assert muon_for(net, 0.01).param_groups[0]["params"] == [texts[2].weight]


def test_a_network_without_matrices_is_trained_by_adam() -> None:
    model = nn.Sequential(nn.Conv1d(2, 4, 1), nn.Conv1d(4, 4, 1, groups=4), nn.Flatten(), nn.Linear(4, 3))
    inputs = torch.rand(8, 2, 1)
    plain, muon = (TaskProblem(prepare(it, inputs, 4), F.cross_entropy) for it in (model, copy.deepcopy(model)))
    batches = [(inputs, torch.arange(8) % 3)]
    fitted(plain, batches, validation=batches)
    fitted(muon, batches, validation=batches, optimizer="muon")
    assert differences(plain.state_dict(), muon.state_dict()) == []


@pytest.mark.parametrize("how", [{}, {"warm_up": 0.5}, {"flip_rate": 0.1}, {"progressive": [4]}])
def test_a_training_that_was_stopped_goes_on_as_if_it_was_not(tmp_path: Path, how: Any) -> None:
    how = {"epochs": 4, "optimizer": "muon", "lr": 0.02, **how}
    whole, stopped = Run(tmp_path / "whole"), tmp_path / "stopped"
    fitted(own_problem(), out=whole.path, callbacks=[Snapshots(whole.path, stopped)], **how)
    for epoch in (1, 2, 3):
        fitted(own_problem(), out=stopped / str(epoch), resume=True, **how)
        assert_same_run(whole, Run(stopped / str(epoch)))


def test_another_optimizer_does_not_continue_a_run(tmp_path: Path) -> None:
    fitted(own_problem(), out=tmp_path / "run", optimizer="muon")
    with pytest.raises(InputError, match="of another training: its optimizer is 'muon', here it is 'adam'"):
        fitted(own_problem(), out=tmp_path / "run", resume=True, epochs=3)


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="unknown optimizer 'sgd'; choose one of adam, muon"):
        fitted(own_problem(), optimizer="sgd")


def test_it_trains_other_weights_than_adam() -> None:
    adam, muon = own_problem(), own_problem()
    fitted(adam)
    fitted(muon, optimizer="muon")
    assert differences(adam.state_dict(), muon.state_dict()) != []
