"""Choices of one option from every group that are near a bound from below, all of them looked at.

For any weights w of the objectives (which sum to 1) and prices p of the limits, none below 0, a choice x that fits has

    max_j objectives[j] . x  >=  bound + reduced . x,     combined = w . objectives + p . limited
    bound = sum over groups of the least combined - sum of p,    reduced = combined - the least of its group

So a choice whose objective is within a gap of the bound has reduced costs of no more than that gap in all, and few
choices do. They are listed group by group; a beginning is dropped once no ending can take it within limits and gap.
What is found within the gap is therefore the best of all.
"""

from dataclasses import dataclass

import numpy as np

SAME = 1e-9
"""Sums that differ by less, relatively, are the same."""
MOST = 200_000
"""So many beginnings are kept at once; where there are more, the gap is too wide to list."""

_DIGITS = 12
"""After the point; sums are around 1, and the same sum in another order differs by less."""

_ROUNDING = 1e-13
"""What float64 makes of sums around 1."""


class TooManyError(Exception):
    """There are more choices within the gap than are listed: it never leaves this package."""


@dataclass(frozen=True)
class Relaxation:
    """A bound from below, and by how much each option raises it."""

    bound: float
    reduced: np.ndarray
    prices: np.ndarray
    """Of the limits."""

    @classmethod
    def by(cls, combined: np.ndarray, prices: np.ndarray, groups: np.ndarray, possible: np.ndarray) -> "Relaxation":
        """By the combined rows and the prices in them: whatever these are, the bound holds."""
        least = np.where(groups * possible > 0, combined, np.inf).min(1)
        reduced = np.where(possible, combined - least @ groups, np.inf)
        return cls(float(least.sum() - prices.sum()), reduced, prices)


@dataclass
class _Beginnings:
    """Choices from the groups so far."""

    sums: np.ndarray
    """A row for each objective and limit."""
    reduced: np.ndarray
    steps: list[tuple[np.ndarray, np.ndarray]]
    """For every group so far, where each came from and the option that it took."""

    def extended(self, options: np.ndarray, rows: np.ndarray, reduced: np.ndarray) -> "_Beginnings":
        """Every beginning with every option of the next group."""
        count = len(self.reduced)
        sums = (self.sums[:, :, None] + rows[:, None, options]).reshape(len(rows), -1)
        steps = (np.repeat(np.arange(count), len(options)), np.tile(options, count))
        return _Beginnings(sums, (self.reduced[:, None] + reduced[options]).ravel(), [*self.steps, steps])

    def only(self, kept: np.ndarray) -> "_Beginnings":
        came, option = self.steps[-1]
        return _Beginnings(
            self.sums[:, kept], self.reduced[kept], [*self.steps[:-1], (came[kept], option[kept].astype(np.int32))]
        )

    def choice(self, last: int, options: int) -> np.ndarray:
        """Which options one of them took."""
        taken = np.zeros(options, dtype=bool)
        for came, option in reversed(self.steps):
            taken[option[last]] = True
            last = came[last]
        return taken


def within_gap(
    rows: tuple[np.ndarray, np.ndarray], groups: np.ndarray, relaxation: Relaxation, gap: float, most_kept: int = MOST
) -> np.ndarray | None:
    """The best of all choices if its objective is within the gap of the bound, None if there is none that near.

    The rows are the objectives and what is limited. Raises TooManyError if there are more beginnings than are kept.
    """
    objectives, limited = rows
    gap += _ROUNDING * (1 + abs(relaxation.bound) + float(relaxation.prices.sum()))
    sums, near = np.vstack(rows), relaxation.reduced <= gap
    options = [np.flatnonzero((group > 0) & near) for group in groups]
    # Groups that change much come first: those that follow then change little, and beginnings off the mark show.
    options.sort(key=lambda of_group: -float(np.ptp(sums[:, of_group], axis=1).max()))
    least, most = (
        np.cumsum([pick(sums[:, of_group], axis=1) for of_group in options][::-1], axis=0)[::-1]
        for pick in (np.min, np.max)
    )
    limits = np.concatenate([np.full(len(objectives), relaxation.bound + gap), np.full(len(limited), 1 + SAME)])
    if len(objectives) == 1:
        limits[0] = np.inf  # reduced costs say it better
    prices = np.concatenate([np.zeros(len(objectives)), relaxation.prices])
    listed = _Beginnings(np.zeros((len(sums), 1)), np.zeros(1), [])
    nothing = np.zeros(len(sums))
    for place, of_group in enumerate(options):
        listed = listed.extended(of_group, sums, relaxation.reduced)
        to_come = (least[place + 1], most[place + 1]) if place + 1 < len(options) else (nothing, nothing)
        fits = (listed.sums + to_come[0][:, None] <= limits[:, None]).all(0)
        unused = np.maximum(0.0, 1 - listed.sums - to_come[1][:, None])
        listed = listed.only(np.flatnonzero(fits & (listed.reduced + prices @ unused <= gap)))
        listed = listed.only(_undominated(listed.sums, 0 if len(objectives) == 1 else len(sums) - 1))
        if len(listed.reduced) > most_kept:
            raise TooManyError("too many choices are within the gap")
    if not len(listed.reduced):
        return None
    return listed.choice(int(listed.sums[: len(objectives)].max(0).argmin()), len(relaxation.reduced))


def _undominated(sums: np.ndarray, one: int) -> np.ndarray:
    """Those of which no other has less of the one row and as much of the others; of two rows, and no more."""
    others = np.delete(sums, one, axis=0).round(_DIGITS)
    order = np.lexsort((sums[one], *others))
    if len(others) == 1:
        least = np.minimum.accumulate(sums[one, order])
        is_first = sums[one, order][1:] < least[:-1]
    else:
        is_first = (others[:, order[1:]] != others[:, order[:-1]]).any(0)
    kept: np.ndarray = order[np.concatenate([[True], is_first])[: len(order)]]
    return kept
