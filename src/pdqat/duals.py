"""Duals: the multipliers, one per bound (per channel where a bound has several), never negative."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pdqat.constraints import Bound
from pdqat.dual_rules import Ascent, DualRule, DualState
from pdqat.errors import InputError


class Duals(nn.Module):
    """The multipliers of an ordered list of bounds, as one vector in the state_dict beside their names."""

    multipliers: Tensor
    smoothed: Tensor
    """The rule's memory."""
    relaxation: Tensor
    """The tolerance that each unit of a multiplier brings with it."""
    _fixed: Tensor

    def __init__(self, bounds: Sequence[Bound], rule: DualRule | None = None) -> None:
        super().__init__()
        self.rule = Ascent() if rule is None else rule
        if not isinstance(self.rule, DualRule):
            raise InputError(f"duals is a dual rule such as Ascent(rate=0.01), not {rule!r}")
        self.bounds = tuple(bounds)
        self.rule.check(self.bounds)
        tuned = next((bound.name for bound in self.bounds if bound.price is not None), None)
        if self.rule.restart and tuned is not None:
            raise InputError(
                f"the tolerance of {tuned} tunes itself by its multiplier, which a restart would take away: give no "
                "price, or no restart"
            )
        per_channel = [bound for bound in self.bounds for _ in range(bound.channels)]
        self.register_buffer("multipliers", torch.tensor([bound.first_multiplier for bound in per_channel]))
        self.register_buffer("smoothed", torch.zeros(len(per_channel)))
        fixed = [0.0 if bound.price else bound.tolerance for bound in per_channel]
        relaxation = [bound.relaxation for bound in per_channel]
        self.register_buffer("_fixed", torch.tensor(fixed, dtype=torch.float64), persistent=False)
        self.register_buffer("relaxation", torch.tensor(relaxation, dtype=torch.float64), persistent=False)

    @property
    def tolerances(self) -> Tensor:
        """Of every multiplier's bound: as given, or where its multiplier has brought it."""
        return self._tolerances_at(self.multipliers)

    def _tolerances_at(self, multipliers: Tensor) -> Tensor:
        return self._fixed + self.relaxation * multipliers

    @torch.no_grad()
    def step(self, slacks: Tensor) -> None:
        """Follow the slacks, staying at 0 or above; with restarts, back to 0 where the slack is not above 0."""
        state = DualState(self.multipliers, self.smoothed, self._tolerances_at)
        multipliers, memory = self.rule.step(state, slacks)
        if self.rule.restart:
            multipliers, memory = (torch.where(slacks <= 0, 0.0, new) for new in (multipliers, memory))
        self.multipliers.copy_(multipliers)
        self.smoothed.copy_(memory)

    def named(self, vector: Tensor | None = None) -> dict[str, Tensor]:
        """The multipliers, or any vector with an entry for each of them, by the bounds' names."""
        vector = self.multipliers if vector is None else vector
        parts = torch.split(vector, [bound.channels for bound in self.bounds])
        return {bound.name: part for bound, part in zip(self.bounds, parts, strict=True)}

    @torch.no_grad()
    def take_over(self, state: dict[str, Any]) -> None:
        """Take multipliers and memory from the state of another plan's duals, by kind and place.

        Layers that were not constrained there start as they always do.
        """
        extra = state.get("_extra_state", {})
        names = extra.get("names", [])
        channels = extra.get("channels", [1] * len(names))
        for key in ("multipliers", "smoothed"):
            before = state.get(key)
            if before is None or len(before) != sum(channels):
                return  # no multipliers, or an older state that does not say which are of one bound's channels
            parts = torch.split(before, channels)
            by_place = {_place(name): part for name, part in zip(names, parts, strict=True)}
            for name, own in self.named(getattr(self, key)).items():
                part = by_place.get(_place(name))
                if part is not None and len(part) == len(own):
                    own.copy_(part)

    def get_extra_state(self) -> dict[str, Any]:
        """The bounds' names, so that multipliers are never loaded into another problem, and their channels."""
        return {
            "names": [bound.name for bound in self.bounds],
            "channels": [bound.channels for bound in self.bounds],
        }

    def set_extra_state(self, state: Any) -> None:
        """Called by load_state_dict."""
        names = [bound.name for bound in self.bounds]
        if state["names"] != names:
            raise InputError(
                f"the multipliers are of another problem: they belong to {', '.join(state['names'])}; "
                f"the constraints here are {', '.join(names)}"
            )


def _place(name: str) -> str:
    """A bound's kind and place, whatever the view."""
    return name.partition("/")[2]
