"""The tables of `plans`: how well each prediction ranks the measured plans, with intervals."""

from typing import Any

import numpy as np
from rich.table import Table
from scipy.stats import binomtest, spearmanr

from pdqat.terminal import PlainConsole, new_table, print_whole

RESAMPLES = 1000
FIFTH = 0.2
FITTED = 20
"""So many plans earlier results' `calibrated` was fitted to: it is not judged by them."""


def correlation(predicted: np.ndarray, losses: np.ndarray) -> float:
    """Spearman's; 0 where one of both is the same for all."""
    if len(losses) < 3 or np.ptp(predicted) == 0 or np.ptp(losses) == 0:
        return 0.0
    return float(spearmanr(predicted, losses).statistic)


def interval(predicted: np.ndarray, losses: np.ndarray) -> tuple[float, float]:
    """Of 95 %, over plans drawn again from these."""
    draw = np.random.default_rng(0)
    picks = (draw.integers(0, len(losses), len(losses)) for _ in range(RESAMPLES))
    values = [correlation(predicted[pick], losses[pick]) for pick in picks]
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def measured(item: dict[str, Any], kind: str) -> float | None:
    """The loss of a plan, the mean where it was trained several times; None where it was not measured."""
    value = item.get(kind)
    return float(np.mean(value)) if isinstance(value, list) and value else None if isinstance(value, list) else value


def judged(band: dict[str, Any], name: str, kind: str) -> dict[str, Any] | None:
    """Of one prediction, by losses of one kind."""
    skipped = FITTED if name == "calibrated" else 0
    items = [
        (cost, loss)
        for cost, item in list(zip(band["predicted"][name], band["plans"], strict=True))[skipped:]
        if (loss := measured(item, kind)) is not None
    ]
    if len(items) < 5:
        return None
    predicted, losses = map(np.array, zip(*items, strict=True))
    best = losses <= np.quantile(losses, FIFTH)
    own = measured(band["own"].get(name, {}), kind)
    every = np.array([loss for item in band["plans"] if (loss := measured(item, kind)) is not None])
    return {
        "n": len(items),
        "all": correlation(predicted, losses),
        "interval": interval(predicted, losses),
        "best fifth": correlation(predicted[best], losses[best]),
        "percentile": None if own is None else 100 * float((every < own).mean()),
        "percentile interval": None if own is None else _part_of(int((every < own).sum()), len(every)),
        "own": own,
        "median": float(np.median(every)),
    }


def _part_of(count: int, of: int) -> tuple[float, float]:
    """What count out of so many drawn plans says of all plans: Wilson's interval of 95 %, in per cent."""
    low, high = binomtest(count, of).proportion_ci(method="wilson")
    return 100 * low, 100 * high


def show(content: dict[str, Any], console: PlainConsole) -> None:
    for network, entry in content["networks"].items():
        for band, of_band in entry["bands"].items():
            for kind in ("loss", "trained"):
                if "predicted" in of_band:
                    table = _table(entry, of_band, kind, f"{network}, {band}, {kind}")
                    if table.row_count:
                        print_whole(console, table)


def _table(entry: dict[str, Any], band: dict[str, Any], kind: str, title: str) -> Table:
    table = new_table(title)
    for heading in ("prediction", "n", "Spearman", "95 %", "best fifth", "its plan's place", "its loss", "CPU s"):
        table.add_column(heading, justify="left" if heading == "prediction" else "right")
    rows = [(name, judged(band, name, kind)) for name in band["predicted"]]
    for name, row in sorted(((n, r) for n, r in rows if r), key=lambda it: -it[1]["all"]):
        seconds = (band["measured"] if name == "measured" else entry["tables"].get(name, {})).get("seconds")
        place = ""
        if row["percentile"] is not None:
            place = "{:.0f} % ({:.0f} to {:.0f})".format(row["percentile"], *row["percentile interval"])
        own = "" if row["own"] is None else f"{row['own']:.3f} ({row['median']:.3f})"
        low, high = row["interval"]
        cells = (f"{row['all']:.2f}", f"{low:.2f} to {high:.2f}", f"{row['best fifth']:.2f}", place, own)
        table.add_row(name, str(row["n"]), *cells, "" if seconds is None else f"{seconds:.1f}")
    return table
