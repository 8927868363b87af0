"""Dual rules: how multipliers follow slacks. `Ascent`, `NuPI`, `Multiplicative`, or a subclass of `DualRule`."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from pdqat.constraints import Bound
from pdqat.errors import InputError

LEAST = 1e-3
"""Smaller multipliers are 0 for the multiplicative rule, and count as this in its step, since 0 would stay 0."""


@dataclass(frozen=True)
class DualState:
    """What a rule starts a step from."""

    multipliers: Tensor
    memory: Tensor
    """A number per multiplier that a rule keeps from step to step; zeros at first."""
    tolerances_at: Callable[[Tensor], Tensor]
    """The tolerances that belong to given multipliers: tolerances with a price move with theirs."""


@dataclass(frozen=True)
class DualRule(ABC):
    """How multipliers follow slacks.

    Args:
        rate: the step size, 0 or more.
        restart: whether a multiplier goes back to 0, and forgets, once its constraint is met (Gallego-Posada et al.
            2022): it has then done its work, and would go on pushing for as long as it takes to come down. `Duals`
            does that after any rule's step.
    """

    rate: float = 0.1
    restart: bool = field(default=False, kw_only=True)
    name: ClassVar[str]
    """What the rule is called in configurations."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and self.rate >= 0):
            raise InputError(f"the dual rate must be zero or more and finite, not {self.rate}")
        if not isinstance(self.restart, bool):
            raise InputError(f"restart says whether multipliers restart, True or False, not {self.restart!r}")

    @abstractmethod
    def step(self, state: DualState, slacks: Tensor) -> tuple[Tensor, Tensor]:
        """The multipliers and the memory after a step on these slacks."""

    @property
    @abstractmethod
    def gain(self) -> float:
        """By how much one step can move a multiplier, per unit of slack."""

    def check(self, bounds: Iterable[Bound]) -> None:
        """Raise InputError if the rule can't work for these bounds.

        A tolerance that tunes itself moves by r x gain of its slack, with r = tolerance / price; beyond 1 it would
        overshoot by its own feedback.
        """
        for bound in bounds:
            if bound.relaxation * self.gain > 1 + 1e-6:
                raise InputError(
                    f"the tolerance of {bound.name} would overshoot: tolerance / price x {self._gain_in_words} must be "
                    f"at most 1, but is {bound.relaxation:g} x {self.gain:g}"
                )

    _gain_in_words: ClassVar[str] = "dual rate"


@final
@dataclass(frozen=True)
class Ascent(DualRule):
    """Algorithm 1 of the paper: lambda <- [lambda + rate x slack]_+.

    Examples:
        >>> state = DualState(torch.tensor([1.0, 0.0]), torch.zeros(2), lambda multipliers: torch.zeros(2))
        >>> Ascent(0.5).step(state, torch.tensor([0.2, -0.2]))[0]
        tensor([1.1000, 0.0000])
    """

    name = "ascent"

    def step(self, state: DualState, slacks: Tensor) -> tuple[Tensor, Tensor]:
        """In the direction of the slacks."""
        return (state.multipliers + self.rate * slacks).clamp(min=0), state.memory

    @property
    def gain(self) -> float:
        """The rate."""
        return self.rate


@final
@dataclass(frozen=True)
class NuPI(DualRule):
    """A PI controller on the slack (Sohrabi et al. 2024), whose second term damps the oscillation of plain ascent.

        xi_t   = nu xi_{t-1} + (1 - nu) slack_t                                     with xi_{-1} = 0
        lambda <- [lambda + rate x slack_t + damping x (xi_t - xi_{t-1})]_+

    Args:
        rate: the step size, 0 or more.
        damping: the proportional gain, 0 or more.
        nu: how much of the smoothed slack is kept, from 0 to below 1.
    """

    damping: float = 0.0
    nu: float = 0.0
    name = "nupi"
    _gain_in_words = "(dual rate + 2 x damping x (1 - nu) / (1 + nu))"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.damping) and self.damping >= 0):
            raise InputError(f"the nuPI damping must be zero or more and finite, not {self.damping}")
        if not 0 <= self.nu < 1:
            raise InputError(f"the nuPI factor nu must be from 0 to below 1, not {self.nu}")

    def step(self, state: DualState, slacks: Tensor) -> tuple[Tensor, Tensor]:
        """By the slacks, and by how the smoothed slacks, which are the memory, have changed."""
        smoothed = self.nu * state.memory + (1 - self.nu) * slacks
        update = self.rate * slacks + self.damping * (smoothed - state.memory)
        return (state.multipliers + update).clamp(min=0), smoothed

    @property
    def gain(self) -> float:
        """The damping swings a multiplier by up to 2 x damping x (1 - nu) / (1 + nu) more than the rate."""
        return self.rate + 2 * self.damping * (1 - self.nu) / (1 + self.nu)


@final
@dataclass(frozen=True)
class Multiplicative(DualRule):
    """lambda <- max(lambda, 0.001) x (distance / tolerance)^rate, and 0 if that is 0.001 or less.

    A slack has no upper limit but is never below -tolerance, so plain ascent rises fast and falls slowly; the ratio of
    distance and tolerance moves a multiplier down as fast as up, whatever the size of either (in the way of GECO,
    Rezende and Viola 2018).

    Args:
        rate: the part of the way that a step goes, in logarithms.
    """

    rate: float = 0.5
    name = "multiplicative"

    def step(self, state: DualState, slacks: Tensor) -> tuple[Tensor, Tensor]:
        """By the ratio of distance and tolerance."""
        least = state.multipliers.new_tensor(LEAST)
        counted = state.multipliers.clamp(min=least)
        distances = slacks + state.tolerances_at(state.multipliers)
        moved = counted * (distances / state.tolerances_at(counted)).clamp(min=0) ** self.rate
        return torch.where(moved > least, moved, 0.0), state.memory

    @property
    def gain(self) -> float:
        """It goes the part `rate` of the way, whatever tolerance and price."""
        return self.rate

    def check(self, bounds: Iterable[Bound]) -> None:
        """Tolerances are divided by, so none may be 0."""
        for bound in bounds:
            if bound.tolerance == 0:
                raise InputError(
                    f"the dual rule 'multiplicative' needs tolerances above 0, but that of {bound.name} is 0"
                )
            if bound.price is not None and self.rate > 1:
                raise InputError(
                    f"the tolerance of {bound.name} would overshoot: the dual rate must be at most 1 for the rule "
                    f"'multiplicative', not {self.rate:g}"
                )


DUAL_RULES: dict[str, type[DualRule]] = {rule.name: rule for rule in (Ascent, NuPI, Multiplicative)}
"""The rules that configurations know by name."""
