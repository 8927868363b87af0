"""How long a plan takes to solve: networks of many layers and candidates, under one budget and under two.

    python benchmarks/solver.py --rounds 5

Sizes are those of convolutional networks (few that repeat), of encoders (fewer), and any (none repeats); costs fall by
about four a bit, as squared rounding errors do, times prices that differ by orders. A round is another draw of both.
What is given is the processor's time for all of `cheapest_plan`, the next better plan included.
Numbers go to results/solver.json.
"""

import time

import numpy as np
from measure import rounds_from, write

from pdqat.allocation.budget import Amount, Budget
from pdqat.allocation.program import cheapest_plan
from pdqat.deployment.bench import Spread
from pdqat.layers.sizes import LayerSize
from pdqat.precision import Precision
from pdqat.terminal import PlainConsole

LAYERS = 160
CANDIDATES = [Precision(bits, bits) for bits in range(1, 9)]
SIZES = {"convolutional": [432, 1152, 2304, 4608, 9216, 18432, 36864], "encoder": [393_216, 589_824, 2_359_296]}
KINDS = [*SIZES, "any"]
BUDGETS = ["2.5 bits", "4.3 bits", "two"]
ROUNDS = 5


def drawn(kind: str, seed: int) -> tuple[dict[str, dict[Precision, float]], dict[str, LayerSize]]:
    """Costs and sizes of a network."""
    random = np.random.default_rng(seed)
    parameters = random.choice(SIZES[kind], LAYERS) if kind in SIZES else random.integers(100, 2_000_000, LAYERS)
    places = random.choice([64, 197, 256, 1024], LAYERS)
    sizes = {
        f"layer{number}": LayerSize(int(weights), int(weights * at))
        for number, (weights, at) in enumerate(zip(parameters, places, strict=True))
    }
    costs = {}
    for layer in sizes:
        falling = random.lognormal(0, 1.5) * 4.0 ** -np.arange(1, 9) * random.lognormal(0, 0.2, 8)
        costs[layer] = dict(zip(CANDIDATES, sorted(map(float, falling), reverse=True), strict=True))
    return costs, sizes


def budget(text: str, sizes: dict[str, LayerSize]) -> Budget:
    """Two: a little more bytes than 3 bits take, and a little fewer operations."""
    if text != "two":
        return Budget.parse(text)
    used = Budget.parse("1 byte and 1 bops").used_by(dict.fromkeys(sizes, CANDIDATES[2]), sizes)
    return Budget(tuple(Amount(it.unit, part * it.number) for it, part in zip(used.amounts, (1.03, 0.97), strict=True)))


def main() -> None:
    rounds = rounds_from(__doc__, ROUNDS)
    seconds: dict[str, list[float]] = {f"{kind}, {text}": [] for kind in KINDS for text in BUDGETS}
    for seed in range(rounds):
        for kind in KINDS:
            costs, sizes = drawn(kind, seed)
            for text in BUDGETS:
                limit = budget(text, sizes)
                started = time.process_time()
                cheapest_plan(costs, sizes, limit)
                seconds[f"{kind}, {text}"].append(time.process_time() - started)
    content = {"layers": LAYERS, "candidates": len(CANDIDATES), "seconds": seconds}
    path = write("solver", content)
    console = PlainConsole()
    for name, values in seconds.items():
        spread = Spread.of(values)
        console.print(f"{name}: {spread.median:.2f} s [{spread.low:.2f}, {max(values):.2f}], n = {spread.n}")
    console.print(path.name)


if __name__ == "__main__":
    main()
