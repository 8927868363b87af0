"""`pdqat show`."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from pdqat.errors import InputError
from pdqat.runs.folder import Run
from pdqat.terminal import print_whole
from pdqat.training.summary import summary_parts


def show_summary(console: Console, summary: Mapping[str, Any], folder: str) -> None:
    """The tables at the end of a run."""
    try:
        parts = summary_parts(summary)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration) as error:
        raise InputError(f"{folder}/summary.json is damaged: it holds no summary ({type(error).__name__})") from error
    for part in parts:
        if isinstance(part, Table):
            print_whole(console, part)
        else:
            console.print(part, highlight=False)
    console.print(f"run folder: {folder}", highlight=False, soft_wrap=True, markup=False)


def run(options: argparse.Namespace) -> None:
    """Show what the run folder holds."""
    shown = Run.open(options.run)
    summary = shown.summary()
    if options.json:
        print(json.dumps(summary, indent=2))
    else:
        show_summary(Console(), summary, str(shown.path))
