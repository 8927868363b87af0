"""A run's weights under another plan, without any training for it.

Only the statistics of the low-precision batch norms are estimated anew, on training images.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.layers import Network
from pdqat.layers.norm import PrecisionNorm
from pdqat.precision import BitPlan
from pdqat.sensitivity.subject import Subject

STATISTICS_BATCHES = 8


@dataclass(frozen=True)
class Measured:
    """Of a model on images."""

    accuracy: float
    loss: float


@torch.no_grad()
def measure_under(subject: Subject, plan: BitPlan, batches: Iterable[tuple[Tensor, Tensor]] | None = None) -> Measured:
    """The run's weights under another plan, on the held-out images unless others are given."""
    net = copy.deepcopy(subject.net)
    _estimate_statistics(net, subject, plan)
    net.eval()
    right = count = 0
    loss = 0.0
    for inputs, target in subject.batches() if batches is None else batches:
        with net.state.under(plan):
            output = net(inputs)
        right += int((output.argmax(1) == target).sum())
        loss += float(F.cross_entropy(output, target, reduction="sum"))
        count += len(target)
    return Measured(right / count, loss / count)


def _estimate_statistics(net: Network, subject: Subject, plan: BitPlan) -> None:
    """The mean over a few batches, in place of the running ones."""
    for module in net.modules():
        if isinstance(module, PrecisionNorm):
            view = module.views[plan.name]
            assert isinstance(view, _BatchNorm)
            view.reset_running_stats()
            view.momentum = None  # torch's word for a plain mean
    net.train()
    for inputs, _ in islice(subject.setup.training_batches(0), STATISTICS_BATCHES):
        with net.state.under(plan):
            net(inputs)
