"""Flip-rate control: of the codes of quantised weights, how many may change in a step.

A weight near the border of two codes flips back and forth, and no learning rate says how many do. So that is a
constraint of its own, flip rate <= target, with a target that goes to 0 over the training (transition rate scheduling,
Lee et al. 2024). Quantised weights take the part U of the optimiser's step, where U starts at 1 and follows

    weight <- before + U x (after - before)        U <- clip(U + eta x (target - flip rate), 0, 1)

It is a dual update: 1 - U is the constraint's multiplier, which climbs with the slack (flip rate - target) and stays at
0 or above, as all multipliers do, and at 1 or below, where weights stand still. Its force is not a gradient but the
part of the step that it takes away, so it works beside any objective and any optimiser.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from pdqat.errors import InputError
from pdqat.layers import Network
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.layers.modes import evaluating
from pdqat.precision import BitPlan
from pdqat.quantizers import Quantizer

STEP = 0.01
"""The step size eta is this over the first target, since rates differ by orders of magnitude between bits and learning
rates: twice that target takes U from 1 to 0 in 100 steps. Where flips are in proportion to U, the rate is k U, and a
step brings U nearer to its resting place by the factor 1 - eta k: it does not overshoot unless free steps flip more
than 100 times the target.
"""


class FlipControl:
    """Steps of an optimiser, and the part of them that the quantised weights of a network take.

    With several plans the codes are those of the first. All that decides on them takes the part: the weights, and the
    weight quantisers' own parameters where these learn a step size.

    Args:
        net: a prepared network.
        flip_rate: the first target.
    """

    def __init__(self, net: Network, flip_rate: float) -> None:
        self._net = net
        self._eta = STEP / flip_rate
        self._weights = quantized_weights(net)
        with evaluating(net), torch.enable_grad():
            leaves = [leaf for weight in self._weights for leaf in _leaves(weight.layer.weight)]
        steps = [parameter for weight in self._weights for parameter in weight.quantizer.parameters()]
        self._parameters = list(dict.fromkeys([*leaves, *steps]))
        self.part = torch.ones((), device=leaves[0].device)
        """U."""
        self.start_epoch()

    def start_epoch(self) -> None:
        """Count anew, from the weights as they are."""
        self._codes = self._codes_now()
        self._rates: list[Tensor] = []

    @torch.no_grad()
    def step(self, optimizer: Optimizer, target: float) -> None:
        """One step of the optimiser, held to the target, without waiting for the device."""
        before = [parameter.clone() for parameter in self._parameters]
        optimizer.step()
        for parameter, old in zip(self._parameters, before, strict=True):
            parameter.copy_(torch.lerp(old, parameter, self.part.to(old.dtype)))
        codes = self._codes_now()
        rate = (codes != self._codes).sum() / codes.numel()
        self._codes = codes
        self._rates.append(rate)
        self.part.add_(self._eta * (target - rate)).clamp_(0, 1)

    def mean_rate(self) -> float:
        """The part of the codes that changed in a step of this epoch, on average."""
        return float(torch.stack(self._rates).mean())

    @torch.no_grad()
    def _codes_now(self) -> Tensor:
        with evaluating(self._net):  # spectral norms change with every look at a weight in training mode
            return torch.cat([weight.codes() for weight in self._weights])


class QuantizedWeight(NamedTuple):
    """A layer's weight, and how a plan rounds it."""

    layer: PrecisionLayer
    quantizer: Quantizer
    bits: int

    def codes(self) -> Tensor:
        """Its whole numbers, in a row."""
        return self.quantizer.codes(self.layer.rows, self.bits).integers.flatten()


def quantized_weights(net: Network) -> list[QuantizedWeight]:
    """Of the first plan, each once, however many layers share it; raises InputError if there is none."""
    plan = next(iter(net.plans.values()))
    check_weights(plan)
    by_weight: dict[Tensor, QuantizedWeight] = {}
    with evaluating(net):
        for name, layer in net.layers.items():
            bits = plan[name].weight
            if bits:
                view = layer.views[plan.name]
                assert isinstance(view, LayerQuantizers)
                by_weight.setdefault(layer.weight, QuantizedWeight(layer, view.weight, bits))
    return list(by_weight.values())


def check_weights(plan: BitPlan) -> None:
    """Raise InputError if a plan quantises none."""
    if not any(precision.weight for precision in plan.precisions.values()):
        raise InputError(f"flip_rate is a part of quantised weights, and the plan {plan.name!r} has none")


def _leaves(weight: Tensor) -> list[Tensor]:
    """The parameters that a weight is: itself, or what a weight norm or a packed projection makes it of."""
    if weight.grad_fn is None:
        return [weight]
    leaves, nodes = [], [weight.grad_fn]
    while nodes:
        node = nodes.pop()
        if hasattr(node, "variable"):  # autograd's word for the leaf that a gradient ends in
            leaves.append(node.variable)
        nodes += [behind for behind, _ in node.next_functions if behind is not None]
    return leaves
