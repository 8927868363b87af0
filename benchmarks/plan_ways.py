"""Costs only propose: which way of measuring plans finds the best one, and for how many measurements?

    python benchmarks/plan_ways.py --seeds 0 1 2
    python benchmarks/plan_ways.py --table                prints the table of what is measured

On the encoder of `plans`, within its two bands. All start from the same offer, the loss of each layer alone at each
candidate, and take the plan of the least loss on the judges of those that they measured:

    solved           the cheapest plan, and nothing else
    20 cheapest      the plans with the least predicted cost
    exchanges        plans that differ from the best so far in one layer, or in two of which one gets more and one less,
                     in the order of predicted cost; the first that is better is gone on from; 20 or 40 in all
    around the plan  each layer at each candidate around the cheapest plan, and the cheapest by these losses
    corrected        what `pdqat plan` does: costs fitted to all that was measured, until they propose nothing new
    corrected, or one layer   the same, or the run's plan with one layer changed, which the offer measured
    corrected, then around    each layer at each candidate around that plan too, and corrected again

Validation and test images, which no weight was trained on, are shared out anew for every split: so many judge (the
first row of a way: as many as `plans` has; the others: fewer), 355 others tell how good the plan is. The place is the
part of the 200 random plans of the band that are better on these others.

With --trained the plans that the usual judges choose by three of these ways are trained for a moment, as `plans` does,
in three orders of the batches.

Results go to results/plan_ways.json after every band; losses are kept in runs/plans.
"""

import argparse
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from measure import RESULTS, commit, machine
from plan_costs import CANDIDATES
from plan_networks import FOLDER, Subject, encoder
from plans import BANDS, drawn, limit, loss_after_training

from pdqat.allocation.budget import Budget
from pdqat.allocation.fitted import Trial, fitted
from pdqat.allocation.joint import plan_cost
from pdqat.allocation.offer import Offer
from pdqat.allocation.program import cheapest_plan
from pdqat.allocation.proposals import choose
from pdqat.disk import write_atomically
from pdqat.experiments.statistics import Difference
from pdqat.layers.modes import evaluating
from pdqat.layers.sizes import LayerSize, layer_sizes
from pdqat.layers.transfer import with_plan
from pdqat.precision import MIXED, BitPlan, Precision
from pdqat.sensitivity.low_layers import low_layers, plan_of
from pdqat.terminal import PlainConsole, new_table, print_whole

FILE = RESULTS / "plan_ways.json"
RANDOM = 200
SPLITS = 4
OTHERS = 355
JUDGES = (288, 144, 72)
TO_TRAIN = ("solved", "corrected", "corrected, or one layer")
ORDERS = 3

Plan = dict[str, Precision]


class Losses:
    """Of every image under every plan that was asked for; kept on disk."""

    def __init__(self, of: Subject, seed: int) -> None:
        pairs = [*of.judges, *of.truth]
        self._inputs, self._target = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        self._problem, self._file = of.problem, FOLDER / f"ways-{seed}.pt"
        self._known: dict[str, torch.Tensor] = torch.load(self._file) if self._file.exists() else {}

    @torch.no_grad()
    def __call__(self, plan: Mapping[str, Precision]) -> np.ndarray:
        """Of every image."""
        key = " ".join(map(str, plan.values()))
        if key not in self._known:
            net = with_plan(self._problem.net, BitPlan(MIXED, plan))
            with evaluating(net), net.under(net.only_plan("measure")):
                self._known[key] = F.cross_entropy(net.call(self._inputs), self._target, reduction="none")
        return self._known[key].numpy()

    def save(self) -> None:
        """For the next time."""
        torch.save(self._known, self._file)


class Search:
    """An offer within a budget, and every plan that was measured on the judges."""

    def __init__(self, losses: Losses, judges: np.ndarray, offered: Offer, budget: Budget) -> None:
        self.losses, self.judges, self.offered, self.budget = losses, judges, offered, budget
        self.measured: dict[tuple[Precision, ...], float] = {}
        (amount,) = budget.amounts
        self.most = amount.limit(offered.sizes) * (1 + 1e-9)
        self.uses = {
            (layer, it): amount.used_by(offered.sizes[layer], it) for layer in offered.sizes for it in CANDIDATES
        }
        self.offers = 0
        """So many of these, the first, were measured for the offer."""

    def loss(self, plan: Mapping[str, Precision]) -> float:
        """The mean over the judges."""
        key = tuple(plan.values())
        if key not in self.measured:
            self.measured[key] = float(self.losses(plan)[self.judges].mean())
        return self.measured[key]

    def fits(self, plan: Plan) -> bool:
        """Whether it keeps to the budget."""
        return sum(self.uses[option] for option in plan.items()) <= self.most

    def best(self, besides: int) -> Plan:
        """Of those that were measured and fit, besides the first so many."""
        keys = list(self.measured)[besides:]
        return min(filter(self.fits, (dict(zip(self.offered.costs, key, strict=True)) for key in keys)), key=self.loss)

    def cheapest(self, offered: Offer) -> Plan:
        """Predicted."""
        return cheapest_plan(offered.costs, offered.sizes, self.budget).precisions

    def single_layers(self, start: Plan) -> list[Trial]:
        """Each layer at each candidate, the others as they are."""
        one = [{layer: it} for layer in start for it in CANDIDATES if it != start[layer]]
        return [Trial(changed, self.loss({**start, **changed})) for changed in [{}, *one]]


def cheapest_plans(search: Search, count: int) -> None:
    """Of all that there are, in this order of layers."""
    costs, cost, use = search.offered.costs, np.zeros(1), np.zeros(1)
    for layer, row in costs.items():
        cost = np.add.outer(cost, list(row.values())).ravel()
        use = np.add.outer(use, [search.uses[layer, it] for it in row]).ravel()
    cost[use > search.most] = np.inf
    near = np.argpartition(cost, count)[:count]
    for taken in np.array(np.unravel_index(near, [len(row) for row in costs.values()])).T:
        search.loss({layer: list(row)[option] for (layer, row), option in zip(costs.items(), taken, strict=True)})


def exchanges(search: Search, count: int) -> None:
    most, plan = len(search.measured) + count, search.cheapest(search.offered)
    search.loss(plan)
    while True:
        near = [{**plan, layer: it} for layer in plan for it in CANDIDATES if it != plan[layer]]
        pairs = itertools.product(itertools.combinations(plan, 2), CANDIDATES, CANDIDATES)
        near += [
            {**plan, one: first, two: second}
            for (one, two), first, second in pairs
            if (bits(first) - bits(plan[one])) * (bits(second) - bits(plan[two])) < 0
        ]
        near = sorted(filter(search.fits, near), key=lambda it: plan_cost(search.offered.costs, it, {}))
        better = None
        for other in near:
            if len(search.measured) >= most:
                return
            if search.loss(other) < search.loss(plan):
                better = other
                break
        if better is None:
            return
        plan = better


def bits(precision: Precision) -> int:
    return precision.weight or 0


def around(search: Search) -> None:
    """The plan's own neighbours, and what they propose."""
    plan = search.cheapest(search.offered)
    costs = fitted(search.offered.costs, {}, plan, search.single_layers(plan))
    search.loss(cheapest_plan(costs, search.offered.sizes, search.budget).precisions)


def corrected(search: Search) -> None:
    choose(search.offered, search.budget, search.loss)


def corrected_then_around(search: Search) -> None:
    corrected(search)
    start = search.offered.start
    search.single_layers(search.best(search.offers))
    every = [dict(zip(start, key, strict=True)) for key in search.measured]
    trials = [
        Trial({layer: it for layer, it in plan.items() if it != start[layer]}, search.loss(plan)) for plan in every
    ]
    search.loss(search.cheapest(search.offered.fitted(trials)))


ONE_LAYER = "corrected, or one layer"
WAYS: dict[str, Callable[[Search], None]] = {
    "solved": lambda _: None,
    "20 cheapest": lambda search: cheapest_plans(search, 20),
    "exchanges, 20": lambda search: exchanges(search, 20),
    "exchanges, 40": lambda search: exchanges(search, 40),
    "around the plan": around,
    "corrected": corrected,
    ONE_LAYER: corrected,
    "corrected, then around": corrected_then_around,
}


def problem_of(of: Subject) -> tuple[Plan, dict[str, LayerSize]]:
    """The plan to start from, and sizes."""
    sizes = layer_sizes(of.problem.net)
    start = {layer: plan_of(of.problem)[layer] for layer in low_layers(of.problem)}
    return start, {layer: sizes[layer] for layer in start}


def searched(losses: Losses, judges: np.ndarray, of: Subject, budget: Budget, name: str) -> tuple[Search, Plan, Plan]:
    """By one of the ways, with the first plan and the one that it takes."""
    start, sizes = problem_of(of)
    blank = Offer("loss", {}, {layer: dict.fromkeys(CANDIDATES, 0.0) for layer in start}, sizes, start, [])
    search = Search(losses, judges, blank, budget)
    alone = search.single_layers(start)
    search.offered = Offer("loss", {}, fitted(blank.costs, {}, start, alone), sizes, start, [], {}, alone)
    solved = search.cheapest(search.offered)
    search.measured.pop(tuple(solved.values()), None)  # it counts also where it is one of the offer's
    search.offers = len(search.measured)
    search.loss(solved)
    WAYS[name](search)
    return search, solved, search.best(0 if name == ONE_LAYER else search.offers)


def run(seed: int, content: dict[str, Any]) -> None:
    of = encoder(seed)
    losses, sizes = Losses(of, seed), problem_of(of)[1]
    for band, unit in BANDS.items():
        budget, rows = Budget.of(unit, limit(unit, sizes)), []
        plans = [
            {layer: Precision.parse(it) for layer, it in plan.items()} for plan in drawn(unit, sizes, RANDOM, seed)
        ]
        count = len(losses(plans[0]))
        for split in range(SPLITS):
            order = np.arange(count) if split == 0 else np.random.default_rng(split).permutation(count)
            truth = order[-OTHERS:]
            random_losses = np.array([losses(plan)[truth].mean() for plan in plans])
            for judges, name in itertools.product(JUDGES, WAYS):
                search, solved, best = searched(losses, order[:judges], of, budget, name)
                loss = float(losses(best)[truth].mean())
                rows.append(
                    {
                        "split": split,
                        "judges": judges,
                        "way": name,
                        "measured": len(search.measured) - search.offers,
                        "loss": loss,
                        "first": float(losses(solved)[truth].mean()),
                        "place": 100 * float((random_losses < loss).mean()),
                    }
                )
        losses.save()
        content["seeds"].setdefault(str(seed), {})[band] = rows
        keep(content)


def train(seed: int, content: dict[str, Any]) -> None:
    of = encoder(seed)
    losses, sizes = Losses(of, seed), problem_of(of)[1]
    known: dict[str, list[float]] = {}
    for band, unit in BANDS.items():
        for name in TO_TRAIN:
            _, _, best = searched(losses, np.arange(JUDGES[0]), of, Budget.of(unit, limit(unit, sizes)), name)
            text = " ".join(map(str, best.values()))
            if text not in known:
                known[text] = [loss_after_training(of, BitPlan(MIXED, best), order) for order in range(ORDERS)]
            of_seed = content.setdefault("trained", {}).setdefault(str(seed), {})
            of_seed.setdefault(band, {})[name] = known[text]
            keep(content)


def keep(content: dict[str, Any]) -> None:
    """Beside what another process has kept meanwhile."""
    known: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    for kind, of_kind in known.items():
        if kind != "machine":
            content[kind] = {**of_kind, **content.get(kind, {})}
    content["machine"] = {**machine(), "commit": commit()}
    write_atomically(FILE, (json.dumps(content, indent=1) + "\n").encode())


def show(content: dict[str, Any], console: PlainConsole) -> None:
    rows = [row for of_seed in content["seeds"].values() for of_band in of_seed.values() for row in of_band]
    for judges in JUDGES:
        table = new_table(f"encoder, {judges} images judge")
        for heading in ("way", "n", "plans measured", "its place, %", "beyond 10 %", "loss minus the first plan's, %"):
            table.add_column(heading, justify="left" if heading == "way" else "right")
        for name in WAYS:
            mine = [row for row in rows if row["way"] == name and row["judges"] == judges]
            places = np.array([row["place"] for row in mine])
            changes = 100 * np.array([row["loss"] / row["first"] - 1 for row in mine])
            cells = (f"{np.mean([row['measured'] for row in mine]):.1f}", f"{places.mean():.1f} ({places.max():.0f})")
            beyond = str(int((places > 10).sum()))
            table.add_row(name, str(len(mine)), *cells, beyond, f"{changes.mean():+.1f} ({changes.max():+.0f})")
        print_whole(console, table)
    trained = [of_band for of_seed in content.get("trained", {}).values() for of_band in of_seed.values()]
    table = new_table("encoder, after a short training")
    for heading in ("way", "n", "loss", "minus the first plan's, %"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for name in TO_TRAIN if trained else ():
        means = [float(np.mean(of_band[name])) for of_band in trained]
        first = [float(np.mean(of_band["solved"])) for of_band in trained]
        pairs = [(100 * mean / other, 100.0) for mean, other in zip(means, first, strict=True)]
        difference = "" if name == "solved" else str(Difference.of(pairs))
        table.add_row(name, str(len(means)), f"{np.mean(means):.4f}", difference)
    print_whole(console, table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--trained", action="store_true", help="train plans that were chosen")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    content: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {"seeds": {}}
    for seed in [] if options.table else options.seeds:
        (train if options.trained else run)(seed, content)
    show(content, PlainConsole())


if __name__ == "__main__":
    main()
