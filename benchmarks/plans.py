"""Of all plans within a budget, does the predicted cost pick one of the best?

    python benchmarks/plans.py encoder preresnet8 mobilenet-small --seeds 0 1 2
    python benchmarks/plans.py --table                    prints the tables of what is measured

For every network (`plan_networks`), trained at 2 bits, and each of two bands, average bits and bit operations within
5 % below what uniform 3 bits would take, random plans are drawn with 1, 2, 4 or 8 bits a layer. Each is measured on
test images by its loss after

    (a) no training, statistics of norms estimated anew
    (b) one short training from the same weights (fewer plans: --trained), the mean of --orders trainings that differ in
        the order of the batches; with --once random plans have the first of them only

and every prediction (`plan_costs`) is compared with that: Spearman's rank correlation over all plans, and over the best
fifth of them; and where its own plan, the cheapest in the band by its costs, stands among the random ones (0 % is
better than all). Predictions see validation images only. `measured` is what `pdqat plan` does: single layers' losses
propose a plan, its loss is measured and corrects them, until no new plan is proposed.

Results go to results/plans.json after every TOGETHER plans and every training, so that it can be stopped and continued.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from measure import RESULTS, commit, machine
from plan_costs import (
    CANDIDATES,
    NAMES,
    Table,
    as_costs,
    pairwise,
    predictions,
    proposed,
    proposing,
    timed,
    total,
    with_pairs,
)
from plan_networks import NETWORKS, Subject, subject
from plan_table import show

from pdqat import fit
from pdqat.allocation.budget import Budget, Unit, plan_uses
from pdqat.allocation.program import cheapest_plan
from pdqat.disk import write_atomically
from pdqat.flags.arguments import count
from pdqat.layers.sizes import LayerSize, layer_sizes
from pdqat.precision import MIXED, BitPlan, Precision
from pdqat.sensitivity.low_layers import low_layers
from pdqat.sensitivity.trials import loss_under
from pdqat.terminal import PlainConsole

FILE = RESULTS / "plans.json"
BANDS = {"bits": Unit.BITS, "BOPs": Unit.BOPS}
MIDDLE = Precision(3, 3)
BELOW = 0.05
DRAWS = 200_000
TOGETHER = 50

Entry = dict[str, Any]


def stored() -> Entry:
    known: Entry = json.loads(FILE.read_text()) if FILE.exists() else {"networks": {}}
    return known


def keep(name: str, entry: Entry) -> None:
    """Beside what other processes have kept of other networks meanwhile."""
    FILE.parent.mkdir(exist_ok=True)
    content = stored()
    content["networks"][name] = entry
    write_atomically(FILE, (json.dumps(content, indent=1) + "\n").encode())


def limit(unit: Unit, sizes: Mapping[str, LayerSize]) -> float:
    return plan_uses(unit, dict.fromkeys(sizes, MIDDLE), sizes)


def drawn(unit: Unit, sizes: Mapping[str, LayerSize], plans: int, seed: int) -> list[dict[str, str]]:
    """Different random plans in the band."""
    draw, most, found = random.Random(seed), limit(unit, sizes), {}
    for _ in range(DRAWS):
        plan = {layer: draw.choice(CANDIDATES) for layer in sizes}
        if (1 - BELOW) * most <= plan_uses(unit, plan, sizes) <= most:
            found[tuple(map(str, plan.values()))] = plan
        if len(found) == plans:
            break
    return [{layer: str(bits) for layer, bits in plan.items()} for plan in found.values()]


def loss_after_training(of: Subject, plan: BitPlan, order: int) -> float:
    batches = random.Random(order).sample(of.short, len(of.short))
    problem = of.problem.under_plan(plan)
    fit(problem, batches, validation=of.judges, epochs=1, lr=of.lr, schedule="one-cycle", progress=False, seed=order)
    return loss_under(problem, problem.net.only_plan("measure"), of.truth, of.statistics)


def measure(of: Subject, entry: Entry, options: argparse.Namespace, save: Callable[[], None]) -> None:
    """Every plan that is not measured yet, those of the predictions first; trainings in one order after another."""
    own = [entry["own"][name] for name in entry["own"]]
    to_train = [entry["own"][name] for name in ("measured", *options.rankings) if name in entry["own"]]
    for number, item in enumerate([*own, *entry["plans"]], 1):
        if "loss" not in item:
            item["loss"] = loss_under(of.problem, BitPlan(MIXED, item["layers"]), of.truth, of.statistics)
        if number % TOGETHER == 0:
            save()
    save()
    for order in range(options.orders):
        drawn_plans = [] if options.once and order else entry["plans"][: options.trained]
        for item in [*to_train, *drawn_plans] if options.trained else []:
            losses = item.setdefault("trained", [])
            if len(losses) == order:
                losses.append(loss_after_training(of, BitPlan(MIXED, item["layers"]), order))
                save()


def cheapest(table: Table, sizes: Mapping[str, LayerSize], budget: Budget) -> dict[str, str]:
    return {layer: str(it) for layer, it in cheapest_plan(as_costs(table), sizes, budget).precisions.items()}


def add_own(entry: Entry, name: str, layers: dict[str, str]) -> None:
    """A prediction's own plan; one that is there under another name shares its measurements."""
    same = next((item for item in entry["own"].values() if item["layers"] == layers), None)
    entry["own"].setdefault(name, {"layers": layers} if same is None else same)


def run(network: str, seed: int, options: argparse.Namespace, console: PlainConsole) -> None:
    of, name = subject(network, seed, options.truth), f"{network}-{seed}"
    entry: Entry = stored()["networks"].get(name, {"tables": {}, "bands": {}})

    def save() -> None:
        keep(name, entry)

    entry["machine"] = {**machine(), "commit": commit()}
    entry["training"] = of.training
    entry["images"] = {"judges": _count(of.judges), "truth": _count(of.truth), "statistics": _count(of.statistics)}
    for by, make in predictions(of).items():
        if by not in entry["tables"] and by in options.rankings:
            console.print(f"{name}: {by}")
            entry["tables"][by] = timed(make)
            save()
    tables: dict[str, Table] = {by: it["costs"] for by, it in entry["tables"].items()}
    if options.pairs and "pairs" not in entry:
        started = time.process_time()
        entry["pairs"] = {"added": pairwise(of, tables["loss"])}
        entry["pairs"]["seconds"] = time.process_time() - started
        save()
    sizes = {layer: layer_sizes(of.problem.net)[layer] for layer in low_layers(of.problem)}
    for band, unit in BANDS.items():
        kept = entry["bands"].setdefault(band, {"own": {}, "plans": []})
        new, budget = drawn(unit, sizes, options.plans, seed), Budget.of(unit, limit(unit, sizes))
        kept["plans"] += [{"layers": plan} for plan in new[len(kept["plans"]) :]]
        if "measured" not in kept:
            offered, loss, seconds = proposing(of)
            kept["measured"] = proposed(offered, loss, budget)
            kept["measured"]["seconds"] += seconds
            save()
        for by, table in tables.items():
            add_own(kept, by, cheapest(table, sizes, budget))
        add_own(kept, "measured", kept["measured"]["layers"])
        console.print(f"{name}: {band}, {len(kept['plans'])} plans")
        judged = {**tables, "measured": kept["measured"]["costs"]}
        kept["predicted"] = {by: [total(it, plan["layers"]) for plan in kept["plans"]] for by, it in judged.items()}
        if "pairs" in entry:
            added = entry["pairs"]["added"]
            kept["predicted"]["loss and pairs"] = [
                with_pairs(tables["loss"], added, it["layers"]) for it in kept["plans"]
            ]
        measure(of, kept, options, save)


def _count(pairs: list[tuple[Any, Any]]) -> int:
    return sum(len(target) for _, target in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", choices=[*NETWORKS, []], help="which of them to measure")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--plans", type=count, default=200, help="random plans of each band (default: 200)")
    parser.add_argument("--trained", type=int, default=60, help="how many of them are also trained (default: 60)")
    parser.add_argument("--orders", type=count, default=3, help="trainings of each of these (default: 3)")
    parser.add_argument("--once", action="store_true", help="train random plans in one order of the batches only")
    parser.add_argument("--truth", type=count, default=2000, help="test images of CIFAR-10 (default: 2000)")
    parser.add_argument(
        "--rankings",
        nargs="+",
        choices=NAMES,
        default=NAMES,
        help="those to measure, and whose plans to train (default: all)",
    )
    parser.add_argument("--pairs", action="store_true", help="also measure pairs of layers together")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = PlainConsole()
    if not options.table:
        for network in options.networks:
            for seed in options.seeds:
                run(network, seed, options, console)
    show(stored(), console)


if __name__ == "__main__":
    main()
