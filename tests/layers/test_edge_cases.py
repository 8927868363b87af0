"""Places where a network is odd: one value a channel, layers called again or not at all, states that share storage."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat import Ascent, BitPlan, InputError, Lagrangian, LayerConstraint, OutputConstraint, prepare
from pdqat.layers import Distance


def test_one_value_a_channel_is_measured_against_its_size() -> None:
    full, low = torch.tensor([[2.0, -4.0]]), torch.tensor([[1.0, -4.0]])
    distance = Distance.RELATIVE.per_channel(full, low, -1)
    assert distance.tolist() == pytest.approx([1 / 4, 0.0], rel=1e-4)


def test_two_values_a_channel_are_measured_against_their_variance() -> None:
    full, low = torch.tensor([[1.0], [3.0]]), torch.tensor([[1.0], [2.0]])
    assert Distance.RELATIVE.per_channel(full, low, -1).tolist() == pytest.approx([0.5], rel=1e-4)


class CalledAgain(nn.Module):
    """first, a, b, a, last: only a is quantised, and its second call rounds behind b."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.a, self.b, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(self.norm(self.first(x)).clamp(0, 1))
        y: Tensor = self.last(self.a(self.b(h).clamp(0, 1)))
        return y


def test_a_layer_before_a_later_call_that_rounds_feels_no_straight_through_gradient() -> None:
    torch.manual_seed(0)
    x, y = torch.rand(16, 3), torch.randint(2, (16,))
    net = prepare(CalledAgain(), x, 2, layers={"b": "full"})
    lagrangian = Lagrangian(net, F.cross_entropy, [OutputConstraint("squared")], gradient="norms")
    full, low = net(x).detach(), lagrangian.terms(x, y).outputs["2-bit"]
    F.mse_loss(low, full).backward()  # type: ignore[no-untyped-call]
    assert net.model.b.weight.grad is None  # type: ignore[union-attr]
    assert net.model.last.weight.grad.abs().sum() > 0  # type: ignore[union-attr, operator]
    assert net.model.norm.views["2-bit"].weight.grad.abs().sum() > 0  # type: ignore[union-attr, index]


def test_rules_beside_a_plan_are_refused() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    with pytest.raises(InputError, match="one or the other"):
        prepare(model, torch.rand(2, 3), BitPlan("mine", {"1": 4}), layers={"1": 8})  # type: ignore[dict-item]


class Sometimes(nn.Module):
    """Skips its middle layer in training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        y: Tensor = self.last(h if self.training else self.middle(h))
        return y


def test_a_constrained_layer_that_is_not_computed_is_named() -> None:
    x = torch.rand(4, 3)
    net = prepare(Sometimes(), x, 2)
    with pytest.raises(InputError, match="middle was not computed"):
        Lagrangian(net, F.cross_entropy, [LayerConstraint()])(x, torch.tensor([0, 1, 0, 1]))


def test_views_have_statistics_of_their_own_even_if_a_state_is_assigned() -> None:
    model = nn.Sequential(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2), nn.Conv1d(2, 2, 1), nn.Conv1d(2, 1, 1))
    state = {key: value.clone() for key, value in model.state_dict().items()}
    net = prepare(model, torch.rand(4, 1, 5), 2)
    net.load_state_dict(state, assign=True)
    net.train()(torch.rand(4, 1, 5))
    norm = net.model.get_submodule("1")
    assert not torch.equal(norm.running_mean, norm.views["2-bit"].running_mean)  # type: ignore[arg-type, index, union-attr]


def test_a_dual_step_before_any_batch_changes_nothing() -> None:
    net = prepare(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)), torch.rand(2, 3), 2)
    lagrangian = Lagrangian(net, F.cross_entropy, duals=Ascent(1.0), objective="full")
    lagrangian.dual_step()
    assert lagrangian.duals.multipliers.tolist() == [1.0, 0.0]
