"""`pdqat data`."""

import argparse

from rich.console import Console

from pdqat import data


def run(options: argparse.Namespace) -> None:
    """Fetch and verify it; prints where it is."""
    console = Console(stderr=True)
    folder = options.folder or data.default_folder()
    path = data.fetch(options.name, folder, lambda message: console.print(message, highlight=False, markup=False))
    print(path)
