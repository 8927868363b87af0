"""Means over seeds, how sure a difference between methods is, and how far multipliers are from stationary."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pdqat.experiments.results import NOT_LAYERS, Entry
from pdqat.sensitivity.ranking import over_last_epochs

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Mean:
    """Mean and standard deviation over seeds, in per cent."""

    per_seed: tuple[float, ...]

    def __str__(self) -> str:
        if not self.per_seed:
            return "-"
        spread = f" ± {statistics.stdev(self.per_seed):.2f}" if len(self.per_seed) > 1 else ""
        return f"{statistics.mean(self.per_seed):.2f}{spread} (n = {len(self.per_seed)})"


def percent(entries: Iterable[Entry], key: str) -> Mean:
    """The mean of what entries have under the key, a part of 1, over those that have a number there."""
    return Mean(tuple(100 * entry[key] for entry in entries if entry[key] is not None))


@dataclass(frozen=True)
class Difference:
    """A mean difference over the same seeds, with the interval of Student's t for pairs.

    Where all seeds have the very same difference, chance has hidden the spread: there is no interval then, and no p.
    """

    mean: float
    low: float
    high: float
    p: float
    n: int

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> "Difference | None":
        """First minus second; None for less than two pairs, which say nothing about spread."""
        if len(pairs) < 2:
            return None
        differences = np.array([first - second for first, second in pairs])
        if np.ptp(differences) == 0:
            return cls(float(differences[0]), math.nan, math.nan, math.nan, len(pairs))
        test = stats.ttest_1samp(differences, 0.0)
        interval = test.confidence_interval(CONFIDENCE)
        return cls(float(differences.mean()), float(interval.low), float(interval.high), float(test.pvalue), len(pairs))

    def __str__(self) -> str:
        if math.isnan(self.p):
            return f"{self.mean:+.2f}, n = {self.n}, the same for all seeds"
        sure = "" if self.p < 1 - CONFIDENCE else ", not significant"
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}], p = {self.p:.2g}, n = {self.n}{sure}"


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction of the p values of several comparisons, in their order.

    The k-th smallest of m is multiplied by m + 1 - k, and none becomes smaller than one before it, or larger than 1. To
    call significant what is below 0.05 then errs in at most 5 % of such families of comparisons.

    >>> holm([0.5, 0.01, 0.03])
    [0.5, 0.03, 0.06]
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


@dataclass(frozen=True)
class JointStationarity:
    """How far several multipliers, taken together, are from a saddle point.

    total_change      sum of |lambda_T - lambda_(T - LAST_EPOCHS)| over the sum of lambda_T: 0 once they have settled
    largest_residual  the largest |min(lambda, -slack)|: 0 under complementary slackness and feasibility
    largest_slack     at most 0 when every constraint is met

    The last two are in the units of multipliers and slacks, to compare dual rules at one tolerance. What is said beside
    a single layer, `relative_change` and `slack_in_tolerances` in `pdqat.sensitivity.ranking`, has no unit, to compare
    layers.
    """

    total_change: float
    largest_residual: float
    largest_slack: float

    @classmethod
    def of(cls, entry: Entry, names: Sequence[str]) -> "JointStationarity":
        """The stationarity of these constraints at the end of a cell."""
        by_epoch = np.array([entry["multipliers"][name] for name in names]).T
        slacks = np.array([entry["slacks"][name][-1] for name in names])
        before, last = over_last_epochs(list(by_epoch))
        moved, total = np.abs(last - before).sum(), last.sum()
        change = float(moved / total) if total > 0 else float(moved > 0)
        return cls(change, float(np.abs(np.minimum(last, -slacks)).max()), float(slacks.max()))


def final_multipliers(entry: Entry) -> dict[str, float]:
    """The multiplier of every layer at the end of a cell, by name."""
    return {name: entry["multipliers"][name][-1] for name in layer_names(entry)}


def layer_names(entry: Entry) -> list[str]:
    """The layers that are constrained."""
    return [name for name in entry["multipliers"] if name not in NOT_LAYERS]


def rank_correlation(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Spearman's correlation over the layers of the first, -1 to 1; not a number where either ranks nothing."""
    scores = [[ranking[layer] for layer in one] for ranking in (one, other)]
    if any(len(set(of_one)) < 2 for of_one in scores):
        return float("nan")
    return float(stats.spearmanr(*scores).statistic)
