"""Statistics of low-precision batch norms, estimated anew for weights that stand still.

Running means lag behind weights whose codes flip. A plain mean over a few training batches belongs to the weights as
they are, so a low-precision view is judged by what it computes and not by what it computed some steps ago.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.batches import Batches, on_device, samples_in
from pdqat.distributed import dealt, processes, total
from pdqat.errors import InputError
from pdqat.layers.modes import evaluating
from pdqat.layers.network import Network
from pdqat.layers.norm import PrecisionNorm
from pdqat.precision import BitPlan

STATISTICS_BATCHES = 8
"""So many batches say what the norms see of a plan that is only tried."""


def estimate_statistics(net: Network, plan: BitPlan, training: Batches, count: int) -> None:
    """Set a plan's norm statistics to their mean over the first `count` batches; nothing else of the network moves."""
    views = [module.views[plan.name] for module in net.modules() if isinstance(module, PrecisionNorm)]
    device = next(net.parameters()).device

    def compute(inputs: Any) -> None:
        with net.under(plan):
            net.call(on_device(inputs, device))

    set_statistics(net, [view for view in views if isinstance(view, _BatchNorm)], compute, training, count)


@torch.no_grad()
def set_statistics(
    model: nn.Module,
    norms: Sequence[_BatchNorm],
    compute: Callable[[Any], object],
    training: Batches,
    count: int,
) -> None:
    """Set the statistics of some of a model's norms to their mean over batches that `compute` sends through them.

    Batches smaller than the first are left out: in a mean over batches their samples would count for more. Several
    processes compute a part of the batches each; collective.
    """
    norms = [norm for norm in norms if norm.track_running_stats]
    if not norms:
        return
    first = 0
    momenta = [norm.momentum for norm in norms]
    with evaluating(model):
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # torch's word for a plain mean
            norm.training = True
        try:
            for _, is_mine, inputs, _ in islice(dealt(training), count):
                first = first or samples_in(inputs)
                if is_mine and samples_in(inputs) >= first:
                    compute(inputs)
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum
    if not first:
        raise InputError("there is no batch to estimate the statistics of norms on: the training batches are empty")
    if processes() > 1:
        for norm in norms:
            _average(norm)


def _average(norm: _BatchNorm) -> None:
    """Let a norm's statistics be the mean over all processes' batches."""
    assert norm.num_batches_tracked is not None
    own = norm.num_batches_tracked.clone()
    norm.num_batches_tracked.copy_(total(own))
    for statistic in (norm.running_mean, norm.running_var):
        assert statistic is not None
        statistic.copy_(total(statistic * own) / norm.num_batches_tracked)
