"""Predicted costs fitted to measured plans: the sum of several predictions that says best what a few plans cost.

    loss(plan)  ~  offset + sum_r weight_r x cost_r(plan),     weight_r >= 0

over plans whose loss was measured, by least squares. A sum of additive costs is additive, so the program stays what it
is. Costs are scaled by their spread over the plans first, so that weights compare, and a prediction that does not help
gets the weight 0.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from pdqat.allocation.program import Costs
from pdqat.errors import InputError
from pdqat.precision import Precision


def plan_cost(costs: Costs, precisions: Mapping[str, Precision]) -> float:
    """Predicted, of a plan."""
    return sum(of_layer[precisions[layer]] for layer, of_layer in costs.items())


def fitted_weights(
    predictions: Mapping[str, Costs], plans: Sequence[Mapping[str, Precision]], losses: Sequence[float]
) -> dict[str, float]:
    """The weight of each prediction, for its costs as they are; all 0 if none follows the losses."""
    from scipy.optimize import nnls

    if len(plans) != len(losses) or len(plans) < 2:
        raise InputError(f"a fit needs at least 2 plans and a loss for each, not {len(plans)} and {len(losses)}")
    totals = np.array([[plan_cost(costs, plan) for costs in predictions.values()] for plan in plans])
    spreads = totals.std(0)
    spreads[spreads == 0] = np.inf  # a prediction that is the same for all says nothing
    columns = (totals - totals.mean(0)) / spreads
    weights, _ = nnls(columns, np.asarray(losses) - np.mean(losses))
    return dict(zip(predictions, map(float, weights / spreads), strict=True))


def combined(predictions: Mapping[str, Costs], weights: Mapping[str, float]) -> dict[str, dict[Precision, float]]:
    """The weighted sum of predictions of the same choices."""
    first = next(iter(predictions.values()))
    return {
        layer: {
            precision: sum(weights[name] * costs[layer][precision] for name, costs in predictions.items())
            for precision in of_layer
        }
        for layer, of_layer in first.items()
    }
