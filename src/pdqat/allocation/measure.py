"""A problem's weights under another plan, without any training for it.

Only the statistics of the low-precision batch norms are estimated anew, on training samples.
"""

from itertools import islice

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.batches import Batches, on_device, pairs
from pdqat.errors import InputError
from pdqat.evaluation import Evaluation, evaluate
from pdqat.layers import Network
from pdqat.layers.norm import PrecisionNorm
from pdqat.precision import BitPlan, Plan
from pdqat.task import Problem

STATISTICS_BATCHES = 8


def measure_under(problem: Problem, plan: Plan, training: Batches, batches: Batches) -> Evaluation:
    """The problem under another plan: norms from a few batches of `training`, scores on `batches`."""
    other = problem.under_plan(plan)
    estimate_statistics(other.net, other.net.only_plan("estimate its norms"), training)
    return evaluate(other, batches)


@torch.no_grad()
def estimate_statistics(net: Network, plan: BitPlan, training: Batches) -> None:
    """Set a plan's norm statistics to their mean over a few batches, in place of the running ones."""
    views = [module.views[plan.name] for module in net.modules() if isinstance(module, PrecisionNorm)]
    norms = [view for view in views if isinstance(view, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # torch's word for a plain mean
    net.train()
    device = next(net.parameters()).device
    seen = 0
    for inputs, _ in islice(pairs(training), STATISTICS_BATCHES):
        with net.under(plan):
            net.call(on_device(inputs, device))
        seen += 1
    if norms and not seen:
        raise InputError("there is no batch to estimate the statistics of norms on: the training batches are empty")
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
