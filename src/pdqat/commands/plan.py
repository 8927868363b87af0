"""`pdqat plan`."""

import argparse
from itertools import islice

from rich.console import Console

from pdqat.allocation.allocate import Allocation
from pdqat.allocation.budget import Budget
from pdqat.allocation.frontier import frontier
from pdqat.allocation.frontier_file import write_frontier
from pdqat.allocation.measure import STATISTICS_BATCHES
from pdqat.allocation.offer import offer
from pdqat.allocation.program import cheapest_plan
from pdqat.batches import limited
from pdqat.config.trained import Trained
from pdqat.errors import InputError
from pdqat.runs.plan_file import write_plan
from pdqat.terminal import print_whole


def run(options: argparse.Namespace) -> None:
    """Choose, show and write the plan, or the curve of plans."""
    budget = None if options.frontier else Budget.parse(options.budget)
    bits = options.bits.replace(",", " ").split()
    if not bits:
        raise InputError("--bits must name at least one precision, such as 1,2,4,8")
    path = options.out or options.run / ("frontier.json" if budget is None else "plan.toml")
    if budget is None and path.suffix != ".json":
        raise InputError(f"--frontier writes JSON with pictures beside it: --out must end in .json, not {path.name!r}")
    trained = Trained.open_finished(options.run, options.model, options.data, "plan for")
    problem, loaders = trained.problem, trained.loaders
    offered = offer(
        problem,
        loaders.validation,
        bits=bits,
        by=options.rank,
        pin=options.pin,
        exclude=options.exclude,
        samples=options.images,
    )
    console = Console()
    if budget is None:
        training = list(islice(loaders.training, STATISTICS_BATCHES))
        points = frontier(problem, offered, training, list(limited(loaders.validation, options.images)))
        write_frontier(points, path, console)
        return
    allocation = Allocation(budget, cheapest_plan(offered.costs, offered.sizes, budget), offered)
    solution = allocation.solution
    about = f"{solution.used} of {budget}; predicted cost {solution.cost:.4g}, by {offered.by}"
    write_plan(path, allocation.precisions, about, trained.plan_model)
    print_whole(console, allocation.table())
    console.print(f"{allocation.about()}\nplan: {path}", highlight=False, markup=False, soft_wrap=True)
