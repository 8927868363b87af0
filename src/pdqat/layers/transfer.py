"""What belongs to a low-precision view starts from full precision, or moves over to the view of another plan."""

import copy
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pdqat.errors import InputError
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.network import Network
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.prepare import calibrate, prepare
from pdqat.layers.summand import Summand
from pdqat.precision import BitPlan, Plan

State = Mapping[str, Any]


def with_plan(net: Network, plan: Plan) -> Network:
    """A copy of the network under another plan, with the same weights, norms and steps of its sums.

    Layers that the plan does not name keep their precision. Where a layer's bits change, its quantisers start from the
    example that the network was prepared with; where they don't, they stay as they are.
    """
    before, new = net.only_plan("change its plan"), completed(net, plan)
    how = net.preparation
    prepared = prepare(
        copy.deepcopy(net).restore(),
        net.example,
        [new],
        quantizer=how.scheme,
        output=how.interface.output,
        tied_norms=how.tied_norms,
        integer_sums=how.integer_sums,
    )
    prepared.left_alone.update(net.left_alone)
    same = [layer for layer, precision in new.precisions.items() if precision == before[layer]]
    take_view(prepared, net.state_dict(), before.name, quantizers_of=same)
    calibrate(prepared, new.precisions.keys() - same)  # again: the plan's own norms make what these layers read
    prepared.training = net.training
    prepared.state.sync_norms = net.state.sync_norms
    return prepared


@torch.no_grad()
def start_views(net: Network) -> None:
    """Let every plan start from full precision as it is now: norms as copies, quantisers set on the example."""
    for module in net.modules():
        if isinstance(module, PrecisionNorm):
            module.start_views()
    calibrate(net, [module.name for module in net.modules() if isinstance(module, Summand)])


def completed(net: Network, plan: Plan) -> BitPlan:
    """A plan for all layers of a network with one plan: those that it does not name keep their precision."""
    if not (hasattr(plan, "name") and hasattr(plan, "precisions")):
        raise InputError(f"a plan is a BitPlan, or what allocate returned, not {plan!r}")
    before = net.only_plan("change its plan")
    unknown = next((layer for layer in plan.precisions if layer not in before.precisions), None)
    if unknown is not None:
        raise InputError(
            f"the plan names the layer {unknown!r}, which the network was not prepared to quantise; its layers are "
            f"{', '.join(before.precisions)}"
        )
    new = BitPlan(plan.name, {**before.precisions, **plan.precisions})
    back = next((layer for layer in before.dropped_layers if not new[layer].is_dropped), None)
    if back is not None:
        raise InputError(
            f"the plan {plan.name!r} gives {back!r} bits, which the network's own plan has dropped: what belongs to it "
            "is not trained any more; start from a network that has it"
        )
    if not new.low_layers:
        rest = "in full precision or dropped" if new.dropped_layers else "in full precision"
        raise InputError(f"the plan {plan.name!r} leaves every layer {rest}; at least one must be low")
    return new


def take_view(net: Network, state: State, view: str, quantizers_of: list[str] | None = None) -> None:
    """Take the norms and sums of a view in a network's state over to the one plan of `net`.

    Quantisers are taken for the layers in `quantizers_of` only: `prepare` has set those of other bits. The affine part
    of tied norms is the full-precision view's, and stays.
    """
    (new,) = net.plans
    moved: dict[str, Tensor | None] = {}
    for name, module in net.model.named_modules():
        if isinstance(module, PrecisionNorm):
            tied = module.weight is not None and module.views[new].weight is module.weight
            for key in module.views[new].state_dict():
                if not (tied and key in ("weight", "bias")):
                    moved[f"{name}.views.{new}.{key}"] = state.get(f"{name}.views.{view}.{key}")
        if isinstance(module, Summand) and module.sums:
            moved[f"{name}.sums.{new}.largest"] = state.get(f"{name}.sums.{view}.largest")
        if isinstance(module, PrecisionLayer) and name in (quantizers_of or ()):
            for key in module.views[new].state_dict():
                moved[f"{name}.views.{new}.{key}"] = state.get(f"{name}.views.{view}.{key}")
    present = {key: value for key, value in moved.items() if value is not None}
    net.load_state_dict({**net.state_dict(), **present})


def views_in(state: State) -> list[str]:
    """The names of the plans in a network's state."""
    matches = (re.search(r"(?:^|\.)views\.([^.]+)\.", key) for key in state)
    return list(dict.fromkeys(match.group(1) for match in matches if match))


def plain_state(state: State) -> dict[str, Any]:
    """A network's state without what its plans add to the plain model's."""
    return {key: value for key, value in state.items() if not {"views", "sums"} & set(key.split("."))}
