"""Duals: the multipliers, one per constraint (per channel where a constraint has several), never negative.

ascent (Algorithm 1)    lambda <- [lambda + rate x slack]_+
nuPI                    xi_t   = nu xi_{t-1} + (1 - nu) slack_t
                        lambda <- [lambda + rate x slack_t + damping x (xi_t - xi_{t-1})]_+       with xi_{-1} = 0

multiplicative          lambda <- max(lambda, 0.001) x (distance / tolerance)^rate, and 0 if that is 0.001 or less

nuPI (Sohrabi et al. 2024) is a PI controller on the slack; its second term damps the oscillation of plain ascent.
A slack has no upper limit but is never below -tolerance, so plain ascent rises fast and falls slowly; the ratio of
distance and tolerance moves a multiplier down as fast as up, whatever the size of either (in the way of GECO, Rezende
and Viola 2018).
"""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from pdqat.constraints import Constraint, choice
from pdqat.errors import InputError


class DualRule(StrEnum):
    """How multipliers follow slacks."""

    ASCENT = "ascent"
    NUPI = "nupi"
    MULTIPLICATIVE = "multiplicative"


RATES = {DualRule.ASCENT: 0.01, DualRule.NUPI: 0.01, DualRule.MULTIPLICATIVE: 0.5}
"""The step size of each rule where none is given: Algorithm 1's, and half the way, in logarithms."""
LEAST = 1e-3
"""Smaller multipliers are 0, and count as this in a multiplicative step, since 0 would stay 0."""


class Duals(nn.Module):
    """The multipliers of an ordered list of constraints, as one vector in the state_dict beside their names."""

    multipliers: Tensor
    smoothed: Tensor
    relaxation: Tensor
    _fixed: Tensor

    def __init__(
        self,
        constraints: Sequence[Constraint],
        rate: float | None = None,
        rule: DualRule | str = DualRule.ASCENT,
        damping: float = 0.0,
        nu: float = 0.0,
    ) -> None:
        super().__init__()
        self.rule = choice(DualRule, rule, "dual rule")
        rate = RATES[self.rule] if rate is None else rate
        if not (math.isfinite(rate) and rate >= 0):
            raise InputError(f"the dual rate must be zero or more and finite, not {rate}")
        if not (math.isfinite(damping) and damping >= 0):
            raise InputError(f"the nuPI damping must be zero or more and finite, not {damping}")
        if not 0 <= nu < 1:
            raise InputError(f"the nuPI factor nu must be from 0 to below 1, not {nu}")
        self.constraints = tuple(constraints)
        if self.rule is DualRule.MULTIPLICATIVE:
            self._check_tolerances()
        self.rate, self.damping, self.nu = rate, damping, nu
        each_channel = [each for each in self.constraints for _ in range(each.channels)]
        self.register_buffer("multipliers", torch.tensor([each.start for each in each_channel]))
        self.register_buffer("smoothed", torch.zeros(len(each_channel)))
        fixed = [0.0 if each.price else each.tolerance for each in each_channel]
        relaxation = [each.relaxation for each in each_channel]
        self.register_buffer("_fixed", torch.tensor(fixed, dtype=torch.float64), persistent=False)
        self.register_buffer("relaxation", torch.tensor(relaxation, dtype=torch.float64), persistent=False)

    @property
    def tolerances(self) -> Tensor:
        """Of every multiplier's constraint: as given, or where its multiplier has brought it."""
        return self._tolerances_at(self.multipliers)

    def _tolerances_at(self, multipliers: Tensor) -> Tensor:
        return self._fixed + self.relaxation * multipliers

    def check_relaxation(self, constraints: Iterable[Constraint]) -> None:
        """Refuse steps that would make a tolerance that tunes itself overshoot by its own feedback.

        With r = tolerance / price, a step of ascent moves the tolerance by r x rate of its slack; nuPI's damping swings
        it by up to 2 r x damping x (1 - nu) / (1 + nu) more. A multiplicative step goes the part `rate` of the way, in
        logarithms, whatever r.
        """
        if self.rule is DualRule.MULTIPLICATIVE:
            for each in constraints:
                if each.price is not None and self.rate > 1:
                    raise InputError(
                        f"the tolerance of {each.name} would overshoot: the dual rate must be at most 1 for the rule "
                        f"'multiplicative', not {self.rate:g}"
                    )
            return
        swing = 2 * self.damping * (1 - self.nu) / (1 + self.nu) if self.rule is DualRule.NUPI else 0.0
        for each in constraints:
            if each.relaxation * (self.rate + swing) > 1 + 1e-6:
                damped = " + 2 x damping x (1 - nu) / (1 + nu)" if swing else ""
                raise InputError(
                    f"the tolerance of {each.name} would overshoot: tolerance / price x (dual rate{damped}) must be at "
                    f"most 1, but is {each.relaxation:g} x {self.rate + swing:g}"
                )

    def _check_tolerances(self) -> None:
        for each in self.constraints:
            if each.tolerance == 0:
                raise InputError(
                    f"the dual rule 'multiplicative' needs tolerances above 0, but that of {each.name} is 0"
                )

    @torch.no_grad()
    def step(self, slacks: Tensor) -> None:
        """Follow the slacks, staying at 0 or above."""
        if self.rule is DualRule.MULTIPLICATIVE:
            least = self.multipliers.new_tensor(LEAST)
            counted = self.multipliers.clamp(min=least)
            ratios = ((slacks + self.tolerances) / self._tolerances_at(counted)).clamp(min=0)
            moved = counted * ratios**self.rate
            self.multipliers.copy_(torch.where(moved > least, moved, 0.0))
            return
        update = self.rate * slacks
        if self.rule is DualRule.NUPI:
            smoothed = self.nu * self.smoothed + (1 - self.nu) * slacks
            update = update + self.damping * (smoothed - self.smoothed)
            self.smoothed.copy_(smoothed)
        self.multipliers.add_(update).clamp_(min=0)

    def named(self, vector: Tensor | None = None) -> dict[str, Tensor]:
        """The multipliers, or any vector in their order, by constraint name."""
        vector = self.multipliers if vector is None else vector
        parts = torch.split(vector, [each.channels for each in self.constraints])
        return {each.name: part for each, part in zip(self.constraints, parts, strict=True)}

    def get_extra_state(self) -> dict[str, Any]:
        """The constraints' names, so that multipliers are never loaded into another problem."""
        return {"names": [each.name for each in self.constraints]}

    def set_extra_state(self, state: Any) -> None:
        """Called by load_state_dict."""
        names = [each.name for each in self.constraints]
        if state["names"] != names:
            raise InputError(
                f"the multipliers are of another problem: they belong to {', '.join(state['names'])}; "
                f"the constraints here are {', '.join(names)}"
            )
