"""The flags of `pdqat data`."""

from typing import Any

from pdqat.config.words import FETCHED_DATA
from pdqat.flags.arguments import path


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser("data", help="fetch and verify a data set")
    parser.set_defaults(command="pdqat.commands.data:run")
    parser.add_argument("name", metavar="NAME", choices=FETCHED_DATA, help=" or ".join(FETCHED_DATA))
    parser.add_argument(
        "--folder", type=path, metavar="DIR", help="where to keep it; by default $PDQAT_DATA or ~/.cache/pdqat"
    )
