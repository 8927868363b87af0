"""How the cost of a step grows: with the number of plans, depth, batch size, threads, and kind of constraint.

    python benchmarks/scaling.py

Eager float32 steps of (ii), since compiling every size would take longer than measuring it; within a group all take
their turns in each round. Numbers go to results/scaling.json.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from measure import Step, interleaved, network, objective, plain, ratios, rounds_from, training_step, write
from rich.markup import escape
from rich.table import Table

from pdqat import ChannelConstraint
from pdqat.deployment.bench import Spread
from pdqat.process import keep_freed_memory
from pdqat.terminal import PlainConsole

ROUNDS = 7
BITS = ("2", "4", "8", "1")


def layers(depth: int = 20, size: int = 128, plans: int = 1, **options: Any) -> Step:
    return training_step(objective("ii", network(depth), BITS[:plans], **options), compiled=False, amp=False, size=size)


def with_threads(threads: int, step: Step) -> Step:
    def run() -> None:
        torch.set_num_threads(threads)
        step()

    return run


def groups() -> dict[str, dict[str, Callable[[], Step]]]:
    """Per group what is measured; everything is compared with the first of its group."""
    threads = [count for count in (1, 2, 4, 8, 16) if count <= torch.get_num_threads()]
    return {
        "(ii), plans": {str(count): functools.partial(layers, plans=count) for count in (1, 2, 3, 4)},
        "(ii), depth": {str(depth): functools.partial(layers, depth=depth) for depth in (20, 32, 56)},
        "(ii), batch size": {str(size): functools.partial(layers, size=size) for size in (32, 64, 128, 256)},
        "(ii), threads": {str(n): functools.partial(lambda n: with_threads(n, layers()), n) for n in threads},
        "(ii), constraint": {"layer": layers, "channel": functools.partial(layers, constraint=ChannelConstraint())},
        "plain, depth": {
            str(depth): functools.partial(lambda d: training_step(plain(network(d)), compiled=False, amp=False), depth)
            for depth in (20, 32, 56)
        },
    }


def main() -> None:
    rounds = rounds_from(__doc__, ROUNDS)
    keep_freed_memory()
    console = PlainConsole()
    all_threads = torch.get_num_threads()
    results: dict[str, Any] = {}
    for group, makers in groups().items():
        seconds = interleaved({name: make() for name, make in makers.items()}, rounds)
        torch.set_num_threads(all_threads)
        first = next(iter(makers))
        table = Table(title=escape(f"{group}: median [quartiles] of {rounds} rounds"))
        for heading in ("", "seconds a step", f"times that of {first}"):
            table.add_column(heading)
        results[group] = {}
        for name, values in seconds.items():
            ratio = ratios(seconds, name, first)
            results[group][name] = {"seconds": values, "ratio": vars(ratio)}
            table.add_row(name, str(Spread.of(values)), str(ratio))
        console.print(table)
        write("scaling", {"groups": results})


if __name__ == "__main__":
    main()
