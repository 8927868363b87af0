"""`pdqat sensitivity`."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from pdqat.commands.arguments import add_own_code, count
from pdqat.config.trained import Trained
from pdqat.sensitivity import RANKINGS, SAMPLES, rank
from pdqat.sensitivity.ranking import NOTE
from pdqat.terminal import print_whole


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    sensitivity = commands.add_parser(
        "sensitivity",
        help="rank a run's layers by what their precision costs",
        description="Rank the layers of a finished run, by its multipliers or by what others use instead.",
    )
    sensitivity.set_defaults(command=_sensitivity)
    add_ranking(sensitivity)
    formats = sensitivity.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="print JSON")
    formats.add_argument("--csv", action="store_true", help="print CSV")


def add_ranking(parser: argparse.ArgumentParser) -> None:
    """The options of every command that ranks layers."""
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--rank", default="dual", metavar="NAME", help=f"{', '.join(RANKINGS)} (default: dual)")
    parser.add_argument(
        "--images", type=count, default=SAMPLES, metavar="N", help=f"validation images to judge by (default: {SAMPLES})"
    )
    add_own_code(parser)


def _sensitivity(options: argparse.Namespace) -> None:
    trained = Trained.open_finished(options.run, options.model, options.data, "rank")
    history, batches = trained.history(), trained.loaders.validation
    ranking = rank(trained.problem, batches, options.rank, samples=options.images, history=history)
    if options.json:
        print(json.dumps([asdict(layer) for layer in ranking.layers], indent=2))
    elif options.csv:
        print(ranking.csv(), end="")
    else:
        console = Console()
        print_whole(console, ranking.table())
        console.print(NOTE, soft_wrap=True)
