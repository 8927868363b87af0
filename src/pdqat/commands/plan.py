"""`pdqat plan`."""

import argparse
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from pdqat.allocation.allocate import Allocation
from pdqat.allocation.budget import Budget
from pdqat.allocation.choices import CANDIDATES
from pdqat.allocation.frontier import frontier
from pdqat.allocation.frontier_file import write_frontier
from pdqat.allocation.measure import STATISTICS_BATCHES
from pdqat.allocation.offer import offer
from pdqat.allocation.program import cheapest_plan
from pdqat.batches import limited
from pdqat.commands.arguments import Pairs
from pdqat.commands.sensitivity import add_ranking
from pdqat.config.trained import Trained
from pdqat.errors import InputError
from pdqat.runs.plan_file import write_plan


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    plan = commands.add_parser(
        "plan",
        help="choose every layer's bits under a budget",
        description="The plan with the least predicted cost under a budget, solved exactly.",
    )
    plan.set_defaults(command=_plan)
    add_ranking(plan)
    goal = plan.add_mutually_exclusive_group(required=True)
    goal.add_argument("--budget", metavar="TEXT", help="such as '2.5 bits', '40 KB' or '0.5 GBOPs'")
    goal.add_argument(
        "--frontier",
        action="store_true",
        help="plans of all sizes, with predicted cost and accuracy, as table and picture",
    )
    plan.add_argument(
        "--bits",
        default=",".join(CANDIDATES),
        metavar="LIST",
        help=f"precisions to choose from (default: {','.join(CANDIDATES)})",
    )
    plan.add_argument(
        "--pin",
        nargs="+",
        action=Pairs,
        of_numbers=False,
        default={},
        metavar="PATTERN=X",
        help="precision of layers that is not to be chosen",
    )
    plan.add_argument(
        "--exclude",
        nargs="+",
        action="extend",
        default=[],
        metavar="PATTERN",
        help="layers to keep in full precision, which the budget does not count",
    )
    plan.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="where to write the plan (default: RUN/plan.toml, or RUN/frontier.json)",
    )


def _plan(options: argparse.Namespace) -> None:
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
    console.print(allocation.table())
    console.print(f"{allocation.about()}\nplan: {path}", highlight=False, markup=False, soft_wrap=True)
