"""Means over seeds, how sure a difference between methods is, and how far multipliers are from stationary."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pdqat.paper.results import OUTPUT, Entry
from pdqat.sensitivity.report import LAST_EPOCHS

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Mean:
    """Mean and standard deviation over seeds, in per cent."""

    values: tuple[float, ...]

    def __str__(self) -> str:
        if not self.values:
            return "-"
        spread = f" ± {statistics.stdev(self.values):.2f}" if len(self.values) > 1 else ""
        return f"{statistics.mean(self.values):.2f}{spread} (n = {len(self.values)})"


def percent(found: Sequence[Entry], key: str, where: Callable[[Entry], bool]) -> Mean:
    """Over the entries that fit."""
    return Mean(tuple(100 * entry[key] for entry in found if where(entry) and entry[key] is not None))


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


@dataclass(frozen=True)
class Stationarity:
    """How far multipliers are from a saddle point.

    change      sum of |lambda_T - lambda_(T - LAST_EPOCHS)| over the sum of lambda_T: 0 once they have settled
    residual    the largest |min(lambda, -slack)|: 0 under complementary slackness and feasibility
    worst slack the largest slack: at most 0 when every constraint is met
    """

    change: float
    residual: float
    worst_slack: float

    @classmethod
    def of(cls, entry: Entry, names: Sequence[str]) -> "Stationarity":
        """At the end of a cell, over these constraints."""
        multipliers = np.array([entry["multipliers"][name] for name in names])
        slacks = np.array([entry["slacks"][name] for name in names])[:, -1]
        last, before = multipliers[:, -1], multipliers[:, max(0, multipliers.shape[1] - 1 - LAST_EPOCHS)]
        total = last.sum()
        change = float(np.abs(last - before).sum() / total) if total > 0 else float(np.abs(last - before).sum() > 0)
        return cls(change, float(np.abs(np.minimum(last, -slacks)).max()), float(slacks.max()))


def final_multipliers(entry: Entry) -> dict[str, float]:
    """Of the layers, at the end of a cell."""
    return {name: entry["multipliers"][name][-1] for name in layer_names(entry)}


def layer_names(entry: Entry) -> list[str]:
    """Of the layers that are constrained."""
    return [name for name in entry["multipliers"] if name != OUTPUT]


def rank_correlation(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Spearman's, over the layers of the first; not a number where either ranks nothing."""
    values = [[each[name] for name in one] for each in (one, other)]
    if any(len(set(each)) < 2 for each in values):
        return float("nan")
    return float(stats.spearmanr(*values).statistic)
