"""`pdqat plan`."""

import argparse
import re
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from pdqat.allocation.allocate import MEASURED, PROPOSED, Allocation, about_prices, plan_table
from pdqat.allocation.budget import Budget
from pdqat.allocation.choices import candidates_in
from pdqat.allocation.frontier import frontier
from pdqat.allocation.frontier_file import write_frontier
from pdqat.allocation.offer import Offer, offer
from pdqat.allocation.proposals import measuring
from pdqat.config.presets import config_of
from pdqat.config.trained import Trained
from pdqat.deployment.limits import check_runs, run_by
from pdqat.disk import check_target
from pdqat.errors import InputError
from pdqat.layers.norm_statistics import STATISTICS_BATCHES
from pdqat.precision import Precision
from pdqat.runs.folder import Run, check_no_file_of_a_run
from pdqat.runs.offer_file import read_offer, write_offer
from pdqat.runs.plan_file import PlanModel, write_plan
from pdqat.sensitivity import held_out
from pdqat.terminal import PlainConsole, counting, print_whole

BUDGETS = "budgets planned for"


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
    if budgets:
        _write_plans(options, bits, paths)
        return
    trained = Trained.open_finished(options.run, options.model, options.data, "plan for")
    offered = _measured(options, bits, trained)
    training = list(islice(trained.loaders.training, STATISTICS_BATCHES))
    judges = held_out(trained.problem, trained.loaders.validation, options.images)
    with counting(BUDGETS) as tell:
        points = frontier(trained.problem, offered, training, judges, tell)
    write_frontier(points, curve, PlainConsole())


def _asked(options: argparse.Namespace, bits: list[str]) -> dict[str, Any]:
    """What the measurements depend on, beside the model."""
    return {
        "rank": options.rank,
        "bits": [str(precision) for precision in candidates_in(bits)],
        "pin": options.pin,
        "exclude": options.exclude,
        "images": options.images,
        "target": options.target,
    }


def _measured(options: argparse.Namespace, bits: list[str], trained: Trained) -> Offer:
    """Measured now, unless it was before."""
    asked = _asked(options, bits)
    known = read_offer(trained.run, asked)
    if known is not None:
        return known
    allowed = None
    if options.target is not None:
        pins = [Precision.parse(pin) for pin in options.pin.values()]
        asked_about = list(dict.fromkeys([*candidates_in(bits), *pins]))
        allowed = run_by(trained.problem, options.target, trained.example, asked_about)
    problem, judges = trained.problem, trained.loaders.validation
    same: dict[str, Any] = {"bits": bits, "pin": options.pin, "exclude": options.exclude, "allowed": allowed}
    with counting(MEASURED) as tell:
        offered = offer(problem, judges, by=options.rank, samples=options.images, tell=tell, **same)
    write_offer(trained.run, offered, asked)
    return offered


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


def _write_plans(options: argparse.Namespace, bits: list[str], paths: Mapping[Path, Budget]) -> None:
    """Choose for every budget before anything is written, since one of them may be too small."""
    run, console = Run.open(options.run), PlainConsole()
    config = config_of(run)
    opened = cache(lambda: Trained.open_finished(options.run, options.model, options.data, "plan for"))

    def measure(precisions: Mapping[str, Precision]) -> float:
        return measuring(opened().problem, judges())(precisions)

    judges = cache(lambda: held_out(opened().problem, opened().loaders.validation, options.images))
    offered = read_offer(run, _asked(options, bits)) if run.best.is_file() else None
    if offered is not None:
        console.print(f"from the measurements in {run.offer_file}", soft_wrap=True)
    offered = known = offered or _measured(options, bits, opened())
    allocations = {}
    for path, budget in paths.items():
        with counting(PROPOSED) as tell:
            allocations[path] = Allocation.within(budget, offered, measure, tell)
        offered = allocations[path].offer
    if len(offered.proposed) > len(known.proposed):
        write_offer(run, offered, _asked(options, bits))
    if options.target is not None:  # what it runs can depend on several layers together
        for allocation in allocations.values():
            check_runs(opened().problem, allocation, options.target, opened().example)
    for path, allocation in allocations.items():
        about = f"{allocation.solution.used} of {allocation.budget}; {allocation.cost()}, by {offered.by}"
        write_plan(path, allocation.precisions, about, PlanModel(config.model, config.width))
    print_whole(console, plan_table(list(allocations.values())))
    for line in about_prices(offered):
        console.print(line, soft_wrap=True)
    for path, allocation in allocations.items():
        console.print(f"{allocation.about()}\nplan: {path}", soft_wrap=True)
