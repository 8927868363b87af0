"""A network under one of its plans, ready to be written and to be compared with."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pdqat.batches import each_tensor, samples_in
from pdqat.deployment.following.calls import inputs_of, outputs_of
from pdqat.deployment.following.dropping import without_dropped
from pdqat.deployment.following.follow import Followed, follow
from pdqat.deployment.integer.freeze import freeze
from pdqat.deployment.integer.frozen import ByLayer, Frozen
from pdqat.deployment.integer.names import OUTPUT
from pdqat.deployment.integer.operations import PerChannel
from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.precision import BitPlan


@dataclass(frozen=True)
class Samples:
    """Some samples, as the network is called with them and as a file reads them."""

    inputs: Any
    read: dict[str, Tensor]
    """By the names of a file's inputs."""

    def __len__(self) -> int:
        return samples_in(self.inputs)

    def rows(self, index: Tensor | slice) -> "Samples":
        """Some of them."""
        inputs = each_tensor(self.inputs, lambda tensor: tensor[index])
        return Samples(inputs, {name: tensor[index] for name, tensor in self.read.items()})

    def split(self, size: int) -> Iterator["Samples"]:
        """So many at a time."""
        for start in range(0, len(self), size):
            yield self.rows(slice(start, start + size))


@dataclass(frozen=True)
class Deployable:
    """A copy of a network, in evaluation mode, in float32 and on the CPU: the network itself is left as it is."""

    net: Network
    plan: BitPlan
    example: Any

    @classmethod
    def of(cls, net: Network, plan: str | BitPlan | None, example: Any) -> "Deployable":
        """The network under a plan, or under its only one."""
        if not isinstance(net, Network):
            raise InputError(f"a prepared network is exported, such as problem.net, not a {type(net).__name__}")
        if plan is None and len(net.plans) != 1:
            raise InputError(f"the network has {len(net.plans)} plans, {', '.join(net.plans)}: name the one to export")
        name = plan.name if isinstance(plan, BitPlan) else next(iter(net.plans)) if plan is None else plan
        with net.under(plan if plan is not None else name):  # says what is wrong with it
            known = net.plans[name]
        return cls(copy.deepcopy(net).float().cpu().eval(), known, inputs_of(net, example))

    @cached_property
    def followed(self) -> Followed:
        """As a graph, without what the plan drops."""
        return without_dropped(follow(self.net, self.example), self.plan, self.net.preparation.branches)

    @cached_property
    def frozen(self) -> Frozen:
        """In integers."""
        return freeze(self.followed.module, self.plan)

    @cached_property
    def most_off(self) -> ByLayer[PerChannel]:
        """How far what the integers are rounded from can be from float32."""
        return self.frozen.most_off()

    @property
    def read_example(self) -> tuple[Tensor, ...]:
        """What a file reads of the example, input by input."""
        return tuple(self.samples(self.example).read.values())

    def samples(self, inputs: Any) -> Samples:
        """A batch's inputs."""
        inputs = inputs_of(self.net, inputs)
        return Samples(inputs, self.followed.read(inputs))

    @torch.no_grad()
    def simulated_outputs(self, inputs: Any) -> dict[str, Tensor]:
        """The simulated model's outputs by name."""
        with self.net.under(self.plan):
            return outputs_of(self.net, inputs)

    def simulated(self, inputs: Any) -> Tensor:
        """The one of them that the network is compared by."""
        return self.simulated_outputs(inputs)[OUTPUT]
