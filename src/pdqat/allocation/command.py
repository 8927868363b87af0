"""`pdqat sensitivity` and `pdqat plan`."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from pdqat.allocation.budget import Budget
from pdqat.allocation.choices import CANDIDATES, choices
from pdqat.allocation.frontier import frontier, write_frontier
from pdqat.allocation.plan_file import PlanModel, write_plan
from pdqat.allocation.prices import predicted_costs
from pdqat.allocation.program import Allocation, allocate
from pdqat.arguments import Pairs, count
from pdqat.errors import InputError
from pdqat.precision import FULL, Precision
from pdqat.rules import check_all_match, resolve
from pdqat.sensitivity import RANKINGS, ranking
from pdqat.sensitivity.report import as_csv, report, show
from pdqat.sensitivity.subject import IMAGES, Subject
from pdqat.terminal import new_table
from pdqat.training import Run


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    sensitivity = commands.add_parser(
        "sensitivity",
        help="rank a run's layers by what their precision costs",
        description="Rank the layers of a finished run, by its multipliers or by what others use instead.",
    )
    sensitivity.set_defaults(command=_sensitivity)
    _add_common(sensitivity)
    formats = sensitivity.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="print JSON")
    formats.add_argument("--csv", action="store_true", help="print CSV")

    plan = commands.add_parser(
        "plan",
        help="choose every layer's bits under a budget",
        description="The plan with the least predicted cost under a budget, solved exactly.",
    )
    plan.set_defaults(command=_plan)
    _add_common(plan)
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


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--rank", default="dual", metavar="NAME", help=f"{', '.join(RANKINGS)} (default: dual)")
    parser.add_argument(
        "--images", type=count, default=IMAGES, metavar="N", help=f"validation images to judge by (default: {IMAGES})"
    )


def _sensitivity(options: argparse.Namespace) -> None:
    rank = ranking(options.rank)
    subject = Subject.of_run(Run.open(options.run), options.images)
    reports = report(subject, rank(subject))
    if options.json:
        print(json.dumps([asdict(each) for each in reports], indent=2))
    elif options.csv:
        print(as_csv(reports), end="")
    else:
        show(Console(), reports, options.rank)


def _plan(options: argparse.Namespace) -> None:
    budget = None if options.frontier else Budget.parse(options.budget)
    candidates = _candidates(options.bits)
    pinned = {pattern: Precision.parse(precision) for pattern, precision in options.pin.items()}
    out = options.out or options.run / "frontier.json"
    if budget is None and out.suffix != ".json":
        raise InputError(f"--frontier writes JSON with pictures beside it: --out must end in .json, not {out.name!r}")
    rank = ranking(options.rank)
    subject = Subject.of_run(Run.open(options.run), options.images)
    named = subject.plan.precisions
    check_all_match(options.exclude, named, "the excluded layer")
    excluded = [layer for layer in named if resolve(dict.fromkeys(options.exclude, True), layer, False)]
    scores = rank(subject)
    check_all_match(pinned, scores, "the pinned layer")
    free = [layer for layer in scores if layer not in excluded]
    if not free:
        raise InputError("--exclude leaves no layer to choose a precision for")
    check_all_match(pinned, free, "outside the excluded layers the pinned layer")
    costs = predicted_costs(subject, scores, options.rank == "dual", choices(free, candidates, pinned))
    table = {layer: costs.get(layer, {named[layer]: 0.0}) for layer in named if layer not in excluded}
    sizes = {layer: subject.sizes[layer] for layer in table}
    if budget is None:
        write_frontier(frontier(subject, table, sizes, excluded), out, Console())
        return
    found = allocate(table, sizes, budget)
    path = options.out or options.run / "plan.toml"
    about = f"{found.used} of {budget}; predicted cost {found.cost:.4g}, by {options.rank}"
    config = subject.setup.config
    chosen = {**named, **dict.fromkeys(excluded, FULL), **found.precisions}
    write_plan(path, chosen, about, PlanModel(config.model, config.width))
    _show_plan(Console(), subject, found, budget, str(path))


def _candidates(text: str) -> list[Precision]:
    found = [Precision.parse(each) for each in text.replace(",", " ").split()]
    if not found:
        raise InputError("--bits must name at least one precision, such as 1,2,4,8")
    return list(dict.fromkeys(found))


def _show_plan(console: Console, subject: Subject, found: Allocation, budget: Budget, path: str) -> None:
    table = new_table()
    for heading in ("layer", "was", "bits", "weights"):
        table.add_column(heading)
    for layer, precision in found.precisions.items():
        table.add_row(layer, str(subject.plan[layer]), str(precision), f"{subject.sizes[layer].parameters:,}")
    console.print(table)
    lines = [f"predicted cost {found.cost:.4g}, using {found.used} of {budget}"]
    if found.next_budget is not None:
        lines.append(f"the next better plan costs {found.next_cost:.4g} and takes {found.next_budget.rounded_up()}")
    console.print("\n".join([*lines, f"plan: {path}"]), highlight=False, markup=False, soft_wrap=True)
