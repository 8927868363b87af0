"""The flags of `pdqat show`."""

from pathlib import Path
from typing import Any


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser("show", help="show the final tables of a run again")
    parser.set_defaults(command="pdqat.commands.show:run")
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
