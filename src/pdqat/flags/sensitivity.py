"""The flags of `pdqat sensitivity`, and those of every command that ranks layers."""

import argparse
from typing import Any

from pdqat.config.words import JUDGES, RANKINGS
from pdqat.flags.arguments import add_own_code, count, path


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser(
        "sensitivity",
        help="rank a run's layers by what their precision costs",
        description="Rank the layers of a finished run, by its multipliers or by what others use instead.",
    )
    parser.set_defaults(command="pdqat.commands.sensitivity:run")
    add_ranking(parser)
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="print JSON")
    formats.add_argument("--csv", action="store_true", help="print CSV")


def add_ranking(parser: argparse.ArgumentParser, usual: str = "dual") -> None:
    """The options of every command that ranks layers."""
    parser.add_argument("run", type=path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--rank", choices=RANKINGS, default=usual, metavar="NAME", help=f"{', '.join(RANKINGS)} (default: {usual})"
    )
    parser.add_argument(
        "--images", type=count, default=JUDGES, metavar="N", help=f"validation images to judge by (default: {JUDGES})"
    )
    add_own_code(parser)
