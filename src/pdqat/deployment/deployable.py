"""A network under one of its plans, ready to be written and to be compared with."""

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pdqat.deployment.integer.freeze import freeze
from pdqat.deployment.integer.frozen import Frozen, LayerCodes
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.precision import BitPlan


@dataclass(frozen=True)
class Deployable:
    """A copy of a network, in evaluation mode, in float32 and on the CPU: the network itself is left as it is."""

    net: Network
    plan: BitPlan
    example: Tensor

    @classmethod
    def of(cls, net: Network, plan: str | BitPlan | None, example: Tensor) -> "Deployable":
        """The network under a plan, or under its only one."""
        if plan is None and len(net.plans) != 1:
            raise InputError(f"the network has {len(net.plans)} plans, {', '.join(net.plans)}: name the one to export")
        name = plan.name if isinstance(plan, BitPlan) else next(iter(net.plans)) if plan is None else plan
        with net.under(plan if plan is not None else name):  # says what is wrong with it
            known = net.plans[name]
        return cls(copy.deepcopy(net).float().cpu().eval(), known, on_cpu(example))

    @cached_property
    def frozen(self) -> Frozen:
        """In integers."""
        return freeze(self.net, self.plan)

    @cached_property
    def most_off(self) -> LayerCodes:
        """How far what the integers are rounded from can be from float32."""
        return self.frozen.most_off()

    @torch.no_grad()
    def simulated(self, images: Tensor) -> Tensor:
        """The simulated model's outputs."""
        with self.net.under(self.plan):
            outputs: Tensor = self.net(images)
        return outputs


def on_cpu(inputs: Any) -> Tensor:
    """Inputs of a network, as files read them."""
    if isinstance(inputs, tuple | list) and len(inputs) == 1:
        inputs = inputs[0]
    if not isinstance(inputs, Tensor) or inputs.dim() == 0:
        raise InputError(f"a file reads one tensor of samples, not a {type(inputs).__name__}")
    return inputs.detach().float().cpu().contiguous()
