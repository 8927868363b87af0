"""How fast a file runs beside the float32 export of the same model, in the same runtime."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pdqat.batches import each_tensor
from pdqat.deployment.following.calls import as_read, tensors_of
from pdqat.deployment.runtimes import Arrays, Session, arrays, load, needed
from pdqat.errors import InputError
from pdqat.patience import within
from pdqat.process import cores
from pdqat.terminal import PlainConsole, new_table, print_whole

BATCHES = (1, 64)
ROUNDS = 15
WARM_UP = 3
TURN_SECONDS = 0.05
"""A turn repeats short runs for so long."""


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of n values."""

    median: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        """Of measured values."""
        quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        return cls(quartiles[1], quartiles[0], quartiles[2], len(values))

    def times(self, factor: float) -> "Spread":
        """In another unit."""
        return Spread(factor * self.median, factor * self.low, factor * self.high, self.n)

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Timed:
    """Seconds of a batch in both precisions."""

    runtime: str
    threads: int
    batch: int
    integer: Spread
    float32: Spread
    ratio: Spread
    """How many times as fast integers are, compared within rounds."""


def measure(
    path: Path,
    float_path: Path,
    example: Any,
    tell: Callable[[str], None] = lambda _: None,
    batches: Sequence[int] = BATCHES,
    rounds: int = ROUNDS,
) -> list[Timed]:
    """Time a file in turns with the float32 file of the same model (`write_float`).

    example     a few inputs, as the network is called with them: their samples are repeated
    batches     how many inputs are run at once: each of these is measured, with one thread and with all, in every
                installed runtime
    """
    timed, inputs = [], each_tensor(example, as_read)
    for runtime in needed(path):
        for threads in sorted({1, cores()}):
            sessions = {"integer": load(runtime, path, threads), "float32": load(runtime, float_path, threads)}
            for batch in batches:
                tell(f"timing {runtime}, {threads} thread{'s' * (threads > 1)}, batch {batch}")
                repeated = each_tensor(inputs, lambda tensor: tensor[torch.arange(batch) % len(tensor)])  # noqa: B023
                read = {name: _read(session, repeated) for name, session in sessions.items()}
                seconds = interleaved(sessions, read, rounds)
                ratios = [b / a for a, b in zip(seconds["integer"], seconds["float32"], strict=True)]
                spreads = (Spread.of(times) for times in (seconds["integer"], seconds["float32"], ratios))
                timed.append(Timed(runtime, threads, batch, *spreads))
    return timed


def _read(session: Session, inputs: Any) -> Arrays:
    """What a file reads of the inputs: by name, or in order."""
    names = inputs if isinstance(inputs, Mapping) else session.inputs
    given = dict(zip(names, tensors_of(inputs), strict=False))
    if not set(session.inputs) <= set(given):
        raise InputError(f"the file reads {', '.join(session.inputs)}, which are not the example's inputs")
    return arrays({name: given[name] for name in session.inputs})


def interleaved(sessions: Mapping[str, Session], inputs: Mapping[str, Arrays], rounds: int) -> dict[str, list[float]]:
    """Seconds of a run of each, round by round in turning order: what slows the machine slows all of them."""
    names = list(sessions)
    repeats = {}
    for name, session in sessions.items():
        within(partial(session.run, inputs[name]), "running the file once")
        for _ in range(WARM_UP):
            started = time.perf_counter()
            session.run(inputs[name])
        repeats[name] = max(1, round(TURN_SECONDS / (time.perf_counter() - started)))
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = time.perf_counter()
            for _ in range(repeats[name]):
                sessions[name].run(inputs[name])
            seconds[name].append((time.perf_counter() - started) / repeats[name])
    return seconds


def show_timed(timed: Sequence[Timed], console: PlainConsole) -> None:
    """As a table."""
    table = new_table("beside the float32 export of the same model: median, quartiles")
    for heading in ("runtime", "threads", "batch", "ms", "float32 ms", "inputs/s", "times float32"):
        table.add_column(heading, justify="right")
    for row in timed:
        milliseconds = [str(spread.times(1000)) for spread in (row.integer, row.float32)]
        speed = f"{row.batch / row.integer.median:,.0f}"
        table.add_row(row.runtime, str(row.threads), str(row.batch), *milliseconds, speed, str(row.ratio))
    print_whole(console, table)
