"""A problem's weights under another plan, without any training for it.

Only the statistics of the low-precision batch norms are estimated anew, on training samples.
"""

from pdqat.batches import Batches
from pdqat.evaluation import Evaluation, evaluate
from pdqat.layers.norm_statistics import STATISTICS_BATCHES, estimate_statistics
from pdqat.metric import MetricLike
from pdqat.precision import Plan
from pdqat.task import Problem


def measure_under(
    problem: Problem, plan: Plan, training: Batches, batches: Batches, metric: MetricLike | None = None
) -> Evaluation:
    """The problem under another plan: norms from a few batches of `training`, scores on `batches`."""
    other = problem.under_plan(plan)
    estimate_statistics(other.net, other.net.only_plan("estimate its norms"), training, STATISTICS_BATCHES)
    return evaluate(other, batches, metric)
