"""Statistics of low-precision batch norms, estimated anew for weights that stand still.

Running means lag behind weights whose codes flip. A plain mean over a few training batches belongs to the weights as
they are, so a low-precision view is judged by what it computes and not by what it computed some steps ago.
"""

from itertools import islice

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.batches import Batches, on_device, pairs, samples_in
from pdqat.errors import InputError
from pdqat.layers.modes import evaluating
from pdqat.layers.network import Network
from pdqat.layers.norm import PrecisionNorm
from pdqat.precision import BitPlan


@torch.no_grad()
def estimate_statistics(net: Network, plan: BitPlan, training: Batches, count: int) -> None:
    """Set a plan's norm statistics to their mean over the first `count` batches; nothing else of the network moves.

    Batches smaller than the first are left out: in a mean over batches their samples would count for more.
    """
    views = [module.views[plan.name] for module in net.modules() if isinstance(module, PrecisionNorm)]
    norms = [view for view in views if isinstance(view, _BatchNorm) and view.track_running_stats]
    if not norms:
        return
    device = next(net.parameters()).device
    first = 0
    momenta = [norm.momentum for norm in norms]
    with evaluating(net):
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # torch's word for a plain mean
            norm.training = True
        try:
            for inputs, _ in islice(pairs(training), count):
                first = first or samples_in(inputs)
                if samples_in(inputs) < first:
                    continue
                with net.under(plan):
                    net.call(on_device(inputs, device))
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum
    if not first:
        raise InputError("there is no batch to estimate the statistics of norms on: the training batches are empty")
