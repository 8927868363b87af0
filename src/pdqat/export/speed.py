"""How fast a file runs beside the float32 export of the same model, in the same runtime."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pdqat.export.runtimes import Session

ROUNDS = 15
WARM_UP = 3
TURN_SECONDS = 0.05
"""A turn repeats short runs for so long."""


@dataclass(frozen=True)
class Latency:
    """Seconds of one run: median and quartiles."""

    median: float
    low: float
    high: float
    n: int


def interleaved(sessions: Mapping[str, Session], images: np.ndarray, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of a run of each, round by round in turning order: what slows the machine slows all of them."""
    names = list(sessions)
    repeats = {}
    for name, session in sessions.items():
        for _ in range(WARM_UP):
            started = time.perf_counter()
            session.run(images)
        repeats[name] = max(1, round(TURN_SECONDS / (time.perf_counter() - started)))
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = time.perf_counter()
            for _ in range(repeats[name]):
                sessions[name].run(images)
            seconds[name].append((time.perf_counter() - started) / repeats[name])
    return seconds


def summarized(values: list[float]) -> Latency:
    """Median and quartiles."""
    quartiles = statistics.quantiles(values, n=4, method="inclusive")
    return Latency(quartiles[1], quartiles[0], quartiles[2], len(values))
