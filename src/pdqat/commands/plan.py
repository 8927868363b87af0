"""`pdqat plan`."""

import argparse
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from pdqat.allocation.allocate import Allocation, about_prices, plan_table
from pdqat.allocation.budget import Budget
from pdqat.allocation.frontier import frontier
from pdqat.allocation.frontier_file import write_frontier
from pdqat.allocation.measure import STATISTICS_BATCHES
from pdqat.allocation.offer import Offer, offer
from pdqat.allocation.program import cheapest_plan
from pdqat.batches import limited
from pdqat.config.trained import Trained
from pdqat.disk import check_target
from pdqat.errors import InputError
from pdqat.runs.folder import check_no_file_of_a_run
from pdqat.runs.plan_file import write_plan
from pdqat.terminal import PlainConsole, print_whole


def run(options: argparse.Namespace) -> None:
    """Choose, show and write a plan for every budget, or the curve of plans."""
    bits = options.bits.replace(",", " ").split()
    if not bits:
        raise InputError("--bits must name at least one precision, such as 1,2,4,8")
    budgets = [Budget.parse(text) for text in options.budget or ()]
    curve = options.out or options.run / "frontier.json"
    if not budgets and curve.suffix != ".json":
        raise InputError(f"--frontier writes JSON with pictures beside it: --out must end in .json, not {curve.name!r}")
    paths = _paths(budgets, options.run, options.out)
    for path in paths or [curve]:
        check_no_file_of_a_run(path)
        check_target(path)
    trained = Trained.open_finished(options.run, options.model, options.data, "plan for")
    offered = offer(
        trained.problem,
        trained.loaders.validation,
        bits=bits,
        by=options.rank,
        pin=options.pin,
        exclude=options.exclude,
        samples=options.images,
    )
    if budgets:
        _write_plans(offered, paths, trained)
        return
    training = list(islice(trained.loaders.training, STATISTICS_BATCHES))
    judges = list(limited(trained.loaders.validation, options.images))
    write_frontier(frontier(trained.problem, offered, training, judges), curve, PlainConsole())


def _paths(budgets: list[Budget], run: Path, out: Path | None) -> dict[Path, Budget]:
    """Where each plan is written: one under the given name, several under names of their own in a folder."""
    if len(budgets) == 1:
        return {out or run / "plan.toml": budgets[0]}
    folder = out or run
    if budgets and not folder.is_dir():
        raise InputError(f"of several budgets each has a file of its own: --out must be a folder, and {folder} is none")
    names = [re.sub(r"[^0-9A-Za-z.]+", "-", str(budget).replace("%", "percent")) for budget in budgets]
    if len(set(names)) < len(names):
        raise InputError(f"a budget is given twice, to the digits that are shown: {', '.join(map(str, budgets))}")
    return {folder / f"plan-{name}.toml": budget for name, budget in zip(names, budgets, strict=True)}


def _write_plans(offered: Offer, paths: Mapping[Path, Budget], trained: Trained) -> None:
    """Solve for every budget before anything is written, since one of them may be too small."""
    console = PlainConsole()
    allocations = {
        path: Allocation(budget, cheapest_plan(offered.costs, offered.sizes, budget), offered)
        for path, budget in paths.items()
    }
    for path, allocation in allocations.items():
        solution = allocation.solution
        about = f"{solution.used} of {allocation.budget}; predicted cost {solution.cost:.4g}, by {offered.by}"
        write_plan(path, allocation.precisions, about, trained.plan_model)
    print_whole(console, plan_table(list(allocations.values())))
    for line in about_prices(offered):
        console.print(line, soft_wrap=True)
    for path, allocation in allocations.items():
        console.print(f"{allocation.about()}\nplan: {path}", soft_wrap=True)
