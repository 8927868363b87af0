"""The flags of `pdqat show`."""

from typing import Any

from pdqat.flags.arguments import path


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser("show", help="show the final tables of a run again")
    parser.set_defaults(command="pdqat.commands.show:run")
    parser.add_argument("run", type=path, metavar="RUN", help="run folder")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
