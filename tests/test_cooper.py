"""Algorithm 1 against cooper, an independent library for constrained optimisation, step by step.

The problem is a small regression with 2-bit weights in the middle layer. Ours runs through prepare and Lagrangian;
cooper's is written out in plain PyTorch.
"""

from collections.abc import Callable
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from cooper.cmp import CMPState, ConstrainedMinimizationProblem
from cooper.constraints.constraint import Constraint
from cooper.constraints.constraint_state import ConstraintState
from cooper.multipliers.multipliers import DenseMultiplier
from cooper.optim.constrained_optimizers.alternating_optimizer import AlternatingPrimalDualOptimizer
from cooper.optim.constrained_optimizers.constrained_optimizer import ConstrainedOptimizer
from cooper.optim.constrained_optimizers.simultaneous_optimizer import SimultaneousOptimizer
from cooper.optim.torch_optimizers.nupi_optimizer import nuPI, nuPIInitType
from cooper.utils.annotations import ConstraintType
from torch import Tensor, nn

from pdqat import Ascent, Lagrangian, LayerConstraint, NuPI, OutputConstraint, prepare
from pdqat.dual_rules import DualRule

STEPS = 50
TOLERANCES = {"output": 0.006, "layer": 0.001}
PRIMAL_RATE, DUAL_RATE = 0.05, 20.0
Trajectory = list[tuple[list[float], list[Tensor]]]


def regression() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(32, 3, generator=generator, dtype=torch.float64)
    return x, (2 * x[:, :1] - x[:, 1:2]).sin() + x[:, 2:]


def layers() -> list[nn.Linear]:
    torch.manual_seed(1)
    return [nn.Linear(inputs, outputs).double() for inputs, outputs in ((3, 4), (4, 4), (4, 1))]


@cache
def ours(dual_after_step: bool, rule: DualRule) -> Trajectory:
    """Multipliers and weights after every step, by pdqat."""
    x, y = regression()
    net = prepare(nn.Sequential(*layers()), x, 2, quantizer="dorefa-unscaled")
    lagrangian = Lagrangian(
        net,
        F.mse_loss,
        [OutputConstraint("squared", TOLERANCES["output"]), LayerConstraint("squared", TOLERANCES["layer"])],
        gradient="exact",
        duals=rule,
    )
    optimizer = torch.optim.SGD(net.parameters(), PRIMAL_RATE)
    result: Trajectory = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        terms = lagrangian.terms(x, y)
        lagrangian.value(terms).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        lagrangian.accumulate(lagrangian.terms(x, y) if dual_after_step else terms)
        lagrangian.dual_step()
        multipliers = lagrangian.duals.multipliers.tolist()
        result.append((multipliers, [parameter.detach().clone() for parameter in net.parameters()]))
    return result


class Problem(ConstrainedMinimizationProblem):
    """min mean (f - y)^2 subject to the two mean squared distances, with DoReFa's 2-bit rounding in the middle."""

    def __init__(self) -> None:
        super().__init__()
        starts = {"output": 1.0, "layer": 0.0}
        for name, start in starts.items():
            multiplier = DenseMultiplier(init=torch.tensor([start]), dtype=torch.float64)
            setattr(self, name, Constraint(ConstraintType.INEQUALITY, multiplier=multiplier))
        self.first, self.middle, self.last = layers()
        self.x, self.y = regression()

    def parameters(self) -> list[nn.Parameter]:
        return [*self.first.parameters(), *self.middle.parameters(), *self.last.parameters()]

    def compute_cmp_state(self) -> CMPState:
        w, bias = torch.tanh(self.middle.weight), self.middle.bias
        full_weight = w / w.abs().max()
        low_weight = (2 * torch.round(3 * (0.5 + full_weight / 2)) / 3 - 1).detach()
        hidden = self.first(self.x)
        full = self.last(F.linear(hidden, full_weight, bias))
        z = (torch.round(3 * hidden.clamp(0, 1)) / 3).detach()
        low_hidden = F.linear(z, low_weight, bias)
        low = self.last(low_hidden)
        layer = ((F.linear(z, full_weight, bias.detach()) - low_hidden.detach()) ** 2).mean()
        violations = {
            self.output: ((full - low) ** 2).mean() - TOLERANCES["output"],
            self.layer: layer - TOLERANCES["layer"],
        }
        observed = {key: ConstraintState(violation=violation.view(1)) for key, violation in violations.items()}
        return CMPState(loss=((full - self.y) ** 2).mean(), observed_constraints=observed)


def coopers(optimizer: type[ConstrainedOptimizer], dual: Callable[[list[Tensor]], torch.optim.Optimizer]) -> Trajectory:
    """Multipliers and weights after every step, by cooper."""
    problem = Problem()
    multipliers = [problem.output.multiplier.weight, problem.layer.multiplier.weight]
    constrained = optimizer(problem, torch.optim.SGD(problem.parameters(), PRIMAL_RATE), dual(multipliers))
    result: Trajectory = []
    for _ in range(STEPS):
        constrained.roll()
        weights = [parameter.detach().clone() for parameter in problem.parameters()]
        result.append(([multiplier.item() for multiplier in multipliers], weights))
    return result


def assert_same(first: Trajectory, second: Trajectory) -> None:
    for (our_multipliers, our_weights), (their_multipliers, their_weights) in zip(first, second, strict=True):
        assert our_multipliers == pytest.approx(their_multipliers, rel=1e-9, abs=1e-12)
        torch.testing.assert_close(our_weights, their_weights, rtol=1e-9, atol=1e-12)
    tracks = list(zip(*(multipliers for multipliers, _ in first), strict=True))
    assert all(len(set(track)) > STEPS / 2 for track in tracks)  # both multipliers keep moving


def ascent(multipliers: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(multipliers, DUAL_RATE, maximize=True)


def test_weights_first_then_multipliers_on_fresh_slacks() -> None:
    """Algorithm 1: slacks are evaluated after the primal step."""
    assert_same(ours(True, Ascent(DUAL_RATE)), coopers(AlternatingPrimalDualOptimizer, ascent))


def test_multipliers_on_the_slacks_of_the_training_batch() -> None:
    """The free variant: the slacks that the primal step saw."""
    assert_same(ours(False, Ascent(DUAL_RATE)), coopers(SimultaneousOptimizer, ascent))


@pytest.mark.parametrize(("damping", "nu"), [(10.0, 0.0), (60.0, 0.6)])
@pytest.mark.parametrize("dual_after_step", [True, False])
def test_nupi(damping: float, nu: float, dual_after_step: bool) -> None:
    """Cooper's gains times its learning rate are our rate and damping; xi starts at zero."""

    def nupi(multipliers: list[Tensor]) -> torch.optim.Optimizer:
        proportional, integral = (torch.tensor(gain, dtype=torch.float64) for gain in (damping, DUAL_RATE))
        start = nuPIInitType.ZEROS
        return nuPI(multipliers, 1.0, Kp=proportional, Ki=integral, ema_nu=nu, init_type=start, maximize=True)

    optimizer = AlternatingPrimalDualOptimizer if dual_after_step else SimultaneousOptimizer
    damped = ours(dual_after_step, NuPI(DUAL_RATE, damping, nu))
    assert_same(damped, coopers(optimizer, nupi))
    assert damped[0][0] != pytest.approx(
        ours(dual_after_step, Ascent(DUAL_RATE))[0][0]
    )  # the damping acts from the first step
