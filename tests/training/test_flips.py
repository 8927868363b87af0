"""Flip-rate control: the part of the codes that change in a step is held to a target that goes to 0."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from command_line import assert_refused_without_a_folder
from interrupted import Snapshots
from own_problem import EXAMPLE, TRAINING, fitted, own_problem
from pdqat import BitPlan, Lagrangian, Precision, TaskProblem, prepare
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.quantizers import SCHEMES
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run
from pdqat.training.flips import FlipControl
from pdqat.training.schedule import flip_target
from pdqat.training.settings import Settings
from same_run import assert_same_run, differences

SIGNS = torch.tensor([[1.0, -1.0], [1.0, -1.0]])


class Shift(torch.optim.Optimizer):
    """Adds given numbers to one parameter."""

    def __init__(self, parameter: nn.Parameter, by: Tensor) -> None:
        super().__init__([parameter], {})
        self.by = by

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        self.param_groups[0]["params"][0].add_(self.by)


def signs() -> tuple[Network, nn.Parameter]:
    """Two by two weights of one bit, whose codes are their signs."""
    net = prepare(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)), torch.rand(4, 2), bits=1)
    weight = net.model[1].weight  # type: ignore[index]
    assert isinstance(weight, nn.Parameter)
    with torch.no_grad():
        weight.copy_(SIGNS)
    return net, weight


def test_steps_by_hand() -> None:
    """Each from the same weights; steps of -1.5 take a weight of 1 to the other sign unless U is below 2/3.

    With a first target of 0.01 the step size is 1.

    1. U = 1:     two of four codes flip         U = 1 + (0.1 - 0.5)      = 0.6
    2. U = 0.6:   1 - 0.6 x 1.5 = 0.1, no flip   U = 0.6 + (0.1 - 0)      = 0.7
    3. U = 0.7:   1 - 0.7 x 1.5 < 0, two flip    U = 0.7 + (0 - 0.5)      = 0.2
    4. U = 0.2:   no flip                        U = min(0.2 + 1, 1)      = 1
    5. U = 1:     all four flip                  U = max(1 + (0 - 1), 0)  = 0
    6. U = 0:     weights stand still
    """
    net, weight = signs()
    control = FlipControl(net, 0.01)
    down = torch.tensor([[-1.5, 0.0], [-1.5, 0.0]])
    parts, rates, moves = [], [], []
    for by, target in ((down, 0.1), (down, 0.1), (down, 0.0), (down, 1.0), (-2 * SIGNS, 0.0), (down, 0.0)):
        with torch.no_grad():
            weight.copy_(SIGNS)
        control.start_epoch()
        control.step(Shift(weight, by), target)
        parts.append(float(control.part))
        rates.append(control.mean_rate())
        moves.append(weight.detach() - SIGNS)
    assert parts == pytest.approx([0.6, 0.7, 0.2, 1, 0, 0], abs=1e-6)
    assert rates == [0.5, 0, 0.5, 0, 1, 0]
    torch.testing.assert_close(moves[:4], [down, 0.6 * down, 0.7 * down, 0.2 * down])
    assert not moves[5].any()


def test_the_rate_is_the_mean_over_the_epochs_steps() -> None:
    net, weight = signs()
    control = FlipControl(net, 0.01)
    for by in (-2 * SIGNS, torch.zeros(2, 2), torch.tensor([[2.0, 0.0], [0.0, 0.0]])):  # all flip, none, one of four
        control.step(Shift(weight, by), target=1.0)
    assert control.mean_rate() == pytest.approx((1 + 0 + 0.25) / 3)


@pytest.mark.parametrize(("warm_up", "targets"), [(0.0, [0.1, 0.05, 0.025, 0]), (0.5, [None, 0.1, 0.05, 0])])
def test_the_target_goes_in_a_line_to_0_after_the_warm_up(warm_up: float, targets: list[float | None]) -> None:
    settings = Settings(epochs=4, warm_up=warm_up, flip_rate=0.1)
    for epoch, target in zip((0, 2, 3, 4), targets, strict=True):
        assert target is None or flip_target(settings, epoch) == pytest.approx(target)


@pytest.mark.parametrize("optimizer", [None, lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9)])
def test_a_target_that_is_never_reached_changes_no_step(optimizer: Any) -> None:
    plain, held = own_problem(), own_problem()
    fitted(plain, optimizer=optimizer)
    history = fitted(held, optimizer=optimizer, flip_rate=1.0)
    assert differences(plain.state_dict(), held.state_dict()) == []
    assert all(0 <= entry["flip_rate"] < 0.3 for entry in history.epochs)


@pytest.mark.parametrize("quantizer", SCHEMES)
def test_the_entry_says_how_many_codes_change_whatever_the_quantizer(quantizer: str) -> None:
    """With one batch an epoch: those that differ before and after it."""
    problem = own_problem(quantizer=quantizer, gradient="straight-through")

    def codes() -> Tensor:
        layers = problem.net.layers.values()
        grids = [layer.views["2-bit"].weight.codes(layer.rows, 2) for layer in layers]  # type: ignore[union-attr,operator]
        return torch.cat([grid.integers.flatten() for grid in grids])

    before = codes()
    history = fitted(problem, TRAINING[:1], epochs=1, lr=0.05, flip_rate=0.5)
    assert history.epochs[0]["flip_rate"] == pytest.approx(float((codes() != before).float().mean()), abs=1e-7)
    assert history.epochs[0]["flip_rate"] > 0


class Noise(torch.optim.Optimizer):
    """Moves every weight at random, and half of the way to 0."""

    def __init__(self, parameter: nn.Parameter) -> None:
        super().__init__([parameter], {})
        self._generator = torch.Generator().manual_seed(3)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        weight = self.param_groups[0]["params"][0]
        weight.mul_(0.5).add_(torch.randn(weight.shape, generator=self._generator))


@pytest.mark.parametrize("target", [0.01, 0.05])
def test_the_rate_comes_to_its_target_and_stays_there(target: float) -> None:
    torch.manual_seed(0)
    net = prepare(nn.Sequential(nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 2)), torch.rand(4, 2), bits=1)
    control, noise = FlipControl(net, target), Noise(net.model[1].weight)  # type: ignore[index]
    control.step(noise, 1.0)
    assert control.mean_rate() > 0.3, "of free steps"
    for _ in range(100):
        control.step(noise, target)
    control.start_epoch()
    for _ in range(100):
        control.step(noise, target)
    assert control.mean_rate() == pytest.approx(target, rel=0.2)
    assert 0 < float(control.part) < 1


class Shared(nn.Module):
    """Two layers with one weight, between others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.one, self.two, self.last = (nn.Linear(4, 4) for _ in range(4))
        self.two.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.two(self.one(self.first(x)).relu()).relu())
        return y


def normed() -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 4),
        parametrizations.weight_norm(nn.Linear(4, 4)),
        parametrizations.spectral_norm(nn.Linear(4, 4)),
        nn.Linear(4, 4),
    )


class Attending(nn.Module):
    """An attention, whose projections are parts of one packed weight, between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)[:, None]
        y: Tensor = self.last(self.attention(x, x, x, need_weights=False)[0][:, 0])
        return y


@pytest.mark.parametrize(
    ("build", "count", "others"),
    [
        (Shared, 16, ["first.weight", "first.bias", "one.bias", "two.bias", "last.weight", "last.bias"]),
        (normed, 2 * 16, ["0.weight", "0.bias", "1.bias", "2.bias", "3.weight", "3.bias"]),
        (
            Attending,
            4 * 16,
            [
                *("first.weight", "first.bias", "last.weight", "last.bias"),
                *("attention.in_proj_bias", "attention.out_proj.bias"),
            ],
        ),
    ],
    ids=["shared", "normed", "packed"],
)
def test_weights_count_once_and_stand_still_at_a_part_of_0_whatever_they_are_made_of(
    build: Callable[[], nn.Module], count: int, others: list[str]
) -> None:
    torch.manual_seed(0)
    net = prepare(build(), EXAMPLE, bits=2)
    control = FlipControl(net, 0.01)
    assert len(control._codes_now()) == count
    control.part.zero_()
    before = {name: parameter.detach().clone() for name, parameter in net.model.named_parameters()}
    net.call(EXAMPLE).square().mean().backward()  # type: ignore[no-untyped-call]
    control.step(torch.optim.SGD(net.parameters(), 0.1), target=0.0)
    moved = {name for name, parameter in net.model.named_parameters() if not torch.equal(parameter, before[name])}
    assert moved == set(others)
    assert control.mean_rate() == 0


def test_with_several_plans_the_codes_are_those_of_the_first() -> None:
    """Of 2-bit codes fewer change than of 8-bit ones."""
    rates = [
        fitted(own_problem(bits=bits, gradient="straight-through"), lr=0.01, flip_rate=1.0).epochs[0]["flip_rate"]
        for bits in ([2, 8], [8, 2])
    ]
    assert rates[0] < rates[1] / 2


def test_only_weights_that_the_plan_quantises_count() -> None:
    net = own_problem(bits=BitPlan("some", {"3.0": Precision(2, 2), "4": Precision(None, 8)})).net
    assert len(FlipControl(net, 0.01)._codes_now()) == 8 * 8


def test_it_begins_after_the_warm_up_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 4, "warm_up": 0.25, "flip_rate": 0.02, "lr": 0.05, "accumulate": 2}
    problem: dict[str, Any] = {"gradient": "straight-through", "quantizer": "lsq"}
    path = tmp_path / "whole"
    history = fitted(own_problem(**problem), out=path, callbacks=[Snapshots(path, tmp_path)], **options)
    assert ["flip_rate" in entry for entry in history.epochs] == [False, True, True, True]
    parts = [load_checkpoint(tmp_path / str(epoch) / "last.pt").get("flips") for epoch in (1, 2, 3, 4)]
    assert parts[0] is None
    assert all(0 <= float(part) < 1 for part in parts[1:] if part is not None)
    assert all(part is not None for part in parts[1:])
    for epoch in (1, 2, 3):
        fitted(own_problem(**problem), out=tmp_path / str(epoch), resume=True, **options)
        assert_same_run(Run.open(path), Run.open(tmp_path / str(epoch)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile uses what torch advises against
def test_a_compiled_training_has_the_flips_of_an_eager_one() -> None:
    options: dict[str, Any] = {"epochs": 2, "lr": 1e-3, "flip_rate": 0.01}
    eager, compiled = (fitted(own_problem(), compile=flag, **options) for flag in (False, True))
    for one, other in zip(eager.epochs, compiled.epochs, strict=True):
        assert one["flip_rate"] == pytest.approx(other["flip_rate"], abs=0.01)
        assert one["objective"] == pytest.approx(other["objective"], rel=1e-2)


@pytest.mark.parametrize("rate", [0, -0.1, 1.5, float("nan"), True, "few"])
def test_what_is_no_part_of_the_weights_is_refused(rate: Any) -> None:
    with pytest.raises(InputError, match=r"flip_rate (must be a number above 0|is a part of the weights, at most 1)"):
        fitted(own_problem(), flip_rate=rate)


def test_it_needs_quantised_weights_that_are_trained() -> None:
    with pytest.raises(InputError, match="flip_rate is a part of quantised weights, and the plan 'a8' has none"):
        fitted(own_problem(bits="a8"), flip_rate=0.01)
    full = TaskProblem(own_problem().net, F.cross_entropy, low=False)
    with pytest.raises(InputError, match="flip_rate is a part of quantised weights, and the problem trains full"):
        fitted(full, flip_rate=0.01)


def test_straight_through_training_alone_is_controlled_too() -> None:
    problem = own_problem()
    assert isinstance(problem, Lagrangian)
    assert "flip_rate" in fitted(TaskProblem(problem.net, F.cross_entropy), flip_rate=0.01).epochs[0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--flip-rate", "0"], "flip_rate must be above 0 and at most 1"),
        (["--flip-rate", "0.01", "--method", "full"], "the problem trains full precision only"),
        (["--flip-rate", "0.01", "--bits", "a8", "--method", "ste"], "the plan 'a8' has none"),
    ],
)
def test_bad_input_is_refused_before_there_is_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert_refused_without_a_folder(tmp_path, capsys, arguments, complaint)
