"""Where the time of a compiled bfloat16 step goes: convolutions, what is fused around them, the optimiser.

    python benchmarks/step_profile.py

The steps of training_step.py under torch's profiler, variants taking turns; medians over rounds. It explains what
lies between the measured ratios and their floors, which count convolutions as if each took the same time. Numbers go to
results/step_profile.json.
"""

import statistics
from collections import defaultdict

from measure import Step, commit, rounds_from, write
from rich.table import Table
from torch.profiler import ProfilerActivity, profile
from training_step import ASKED_FOR, FLOORS, made

from pdqat.process import check_compiler, keep_freed_memory
from pdqat.terminal import PlainConsole

VARIANTS = ["plain", "(i)", "(ii)", "(ii) sampled"]
ROUNDS = 9
KINDS = ["convolutions, forward", "convolutions, backward", "optimiser", "all else"]


def kind(operation: str) -> str:
    """All else is mostly the compiler's fused loops: norms, clips, rounding, distances, losses."""
    if "convolution" in operation:
        return "convolutions, backward" if "backward" in operation else "convolutions, forward"
    return "optimiser" if "optimizer" in operation.lower() or "_foreach" in operation else "all else"


def milliseconds(step: Step) -> dict[str, float]:
    """Of one step, by kind."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step()
    by_kind: dict[str, float] = defaultdict(float)
    for event in profiler.key_averages():
        by_kind[kind(event.key)] += event.self_cpu_time_total / 1000
    return by_kind


def main() -> None:
    turns = rounds_from(__doc__, ROUNDS)
    check_compiler()
    keep_freed_memory()
    console = PlainConsole()
    steps = {name: made(name, ASKED_FOR, 20, 1, console) for name in VARIANTS}
    for step in steps.values():
        step()
    rounds = [{name: milliseconds(step) for name, step in steps.items()} for _ in range(turns)]
    medians = {
        name: {what: statistics.median(turn[name].get(what, 0.0) for turn in rounds) for what in KINDS}
        for name in VARIANTS
    }
    table = Table(title=f"milliseconds of a step, medians of {turns}; in brackets times plain")
    for heading in ("", *VARIANTS):
        table.add_column(heading)
    for what in KINDS:
        base = medians["plain"][what]
        table.add_row(what, *(f"{medians[name][what]:.0f} ({medians[name][what] / base:.2f})" for name in VARIANTS))
    totals = {name: sum(medians[name].values()) for name in VARIANTS}
    table.add_row("sum", *(f"{totals[name]:.0f} ({totals[name] / totals['plain']:.2f})" for name in VARIANTS))
    table.add_row("floor", *(f"({FLOORS[name] / 3:.2f})" for name in VARIANTS))
    console.print(table)
    write("step_profile", {"commit": commit(), "mode": ASKED_FOR, "rounds": rounds, "medians": medians})


if __name__ == "__main__":
    main()
