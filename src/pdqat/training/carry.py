"""Going on from a run under another plan: what belongs to its low-precision view moves over to the new one."""

import re
from typing import Any

import torch

from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import Network
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.summand import Summand
from pdqat.training.objectives import Objective


def carry_over(net: Network, objective: Objective, checkpoint: dict[str, Any], source: str) -> None:
    """Take the norms of the checkpoint's view, and the multipliers of constraints that are still there.

    Quantisers are not taken: `prepare` has set theirs for the new bits. Nor is the affine part of tied norms, which is
    the full-precision view's.
    """
    found = {match.group(1) for key in checkpoint["model"] if (match := re.search(r"(?:^|\.)views\.([^.]+)\.", key))}
    if len(found) != 1 or len(net.plans) != 1:
        raise InputError(
            f"to carry over, {source} and the new training need one plan each, not {len(found)} and {len(net.plans)}"
        )
    _carry_view(net, checkpoint["model"], found.pop(), source)
    if isinstance(objective, Lagrangian):
        _carry_multipliers(objective, checkpoint["duals"])


def _carry_view(net: Network, state: dict[str, Any], old: str, source: str) -> None:
    new = next(iter(net.plans))
    moved: dict[str, Any] = {}
    for name, module in net.model.named_modules():
        if isinstance(module, PrecisionNorm):
            tied = module.weight is not None and module.views[new].weight is module.weight
            for key in module.views[new].state_dict():
                if not (tied and key in ("weight", "bias")):
                    moved[f"{name}.views.{new}.{key}"] = state.get(f"{name}.views.{old}.{key}")
        if isinstance(module, Summand) and module.sums:
            moved[f"{name}.sums.{new}.largest"] = state.get(f"{name}.sums.{old}.largest")
    try:
        net.load_state_dict({**net.state_dict(), **{key: each for key, each in moved.items() if each is not None}})
    except RuntimeError as error:
        raise InputError(f"{source} is of another model") from error


@torch.no_grad()
def _carry_multipliers(objective: Lagrangian, duals: dict[str, Any]) -> None:
    """By kind and place, with what nuPI smoothed; layers that were not constrained before start as they always do."""
    names = duals.get("duals._extra_state", {}).get("names", [])
    for key in ("multipliers", "smoothed"):
        before = duals.get(f"duals.{key}")
        if before is None or len(names) != len(before):
            return  # no multipliers, or several to a name, one for each channel
        by_place = {name.partition("/")[2]: value for name, value in zip(names, before, strict=True)}
        for name, own in objective.duals.named(getattr(objective.duals, key)).items():
            place = name.partition("/")[2]
            if place in by_place and len(own) == 1:
                own.copy_(by_place[place])
