"""`pdqat eval`."""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from pdqat.commands.arguments import add_own_code
from pdqat.config.trained import Trained
from pdqat.errors import InputError
from pdqat.evaluation import evaluate
from pdqat.evidence import bound_tables, score_table


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    command = commands.add_parser("eval", help="measure a run's model again")
    command.set_defaults(command=_eval)
    command.add_argument("run", type=Path, metavar="RUN", help="run folder")
    command.add_argument("--part", choices=("test", "validation"), default="test", help="which images (default: test)")
    command.add_argument("--checkpoint", choices=("best", "last"), default="best", help="which state (default: best)")
    command.add_argument("--json", action="store_true", help="print JSON instead of tables")
    add_own_code(command)


def _eval(options: argparse.Namespace) -> None:
    trained = Trained.open(options.run, options.model, options.data, checkpoint=options.checkpoint)
    batches = trained.loaders.test if options.part == "test" else trained.loaders.validation
    if batches is None:
        raise InputError(f"the run {options.run} has no test samples; measure it with --part validation")
    measured = evaluate(trained.problem, batches)
    if options.json:
        scores = {"metric": measured.metric.name, measured.metric.name: measured.scores}
        print(json.dumps({"part": options.part, **scores, "constraints": measured.constraints}, indent=2))
        return
    console = Console()
    title = f"{measured.metric.name.replace('_', ' ')} on {options.part} images"
    console.print(score_table(measured.metric, {measured.metric.name: measured.scores}, title))
    for table in bound_tables(measured.constraints, measured.plans):
        console.print(table)
