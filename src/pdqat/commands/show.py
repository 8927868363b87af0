"""`pdqat show`."""

import argparse
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from pdqat.printing import say_as_json
from pdqat.runs.folder import Run
from pdqat.terminal import PlainConsole, print_whole
from pdqat.training.summary import summary_parts


def show_summary(console: PlainConsole, summary: Mapping[str, Any], folder: str) -> None:
    """The tables at the end of a run."""
    for part in summary_parts(summary):
        if isinstance(part, Table):
            print_whole(console, part)
        else:
            console.print(part)
    console.print(f"run folder: {folder}", soft_wrap=True)


def run(options: argparse.Namespace) -> None:
    """Show what the run folder holds."""
    shown = Run.open(options.run)
    summary = shown.summary()
    if options.json:
        say_as_json(summary)
    else:
        show_summary(PlainConsole(), summary, str(shown.path))
