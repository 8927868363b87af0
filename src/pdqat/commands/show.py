"""`pdqat show`."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pdqat.errors import InputError
from pdqat.runs.folder import Run
from pdqat.training.summary import summary_parts


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    show = commands.add_parser("show", help="show the final tables of a run again")
    show.set_defaults(command=_show)
    show.add_argument("run", type=Path, metavar="RUN", help="run folder")
    show.add_argument("--json", action="store_true", help="print the summary as JSON")


def show_summary(console: Console, summary: Mapping[str, Any], folder: str) -> None:
    """The tables at the end of a run."""
    try:
        parts = summary_parts(summary)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration) as error:
        raise InputError(f"{folder}/summary.json is damaged: it holds no summary ({type(error).__name__})") from error
    for part in parts:
        if isinstance(part, Table):
            console.print(part)
        else:
            console.print(part, highlight=False)
    console.print(f"run folder: {folder}", highlight=False, soft_wrap=True, markup=False)


def _show(options: argparse.Namespace) -> None:
    run = Run.open(options.run)
    summary = run.summary()
    if options.json:
        print(json.dumps(summary, indent=2))
    else:
        show_summary(Console(), summary, str(run.path))
