"""`pdqat data`."""

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from pdqat import data


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    fetch = commands.add_parser("data", help="fetch and verify a data set")
    fetch.set_defaults(command=_data)
    fetch.add_argument("name", metavar="NAME", choices=("cifar10", "cifar100"), help="cifar10 or cifar100")
    fetch.add_argument(
        "--folder", type=Path, metavar="DIR", help="where to keep it; by default $PDQAT_DATA or ~/.cache/pdqat"
    )


def _data(options: argparse.Namespace) -> None:
    console = Console(stderr=True)
    folder = options.folder or data.default_folder()
    path = data.fetch(options.name, folder, lambda message: console.print(message, highlight=False, markup=False))
    print(path)
