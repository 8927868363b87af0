"""`pdqat data`."""

import argparse

from pdqat import data
from pdqat.printing import say
from pdqat.terminal import PlainConsole


def run(options: argparse.Namespace) -> None:
    """Fetch and verify it; prints where it is."""
    console = PlainConsole(stderr=True)
    folder = options.folder or data.default_folder()
    path = data.fetch(options.name, folder, lambda message: console.print(message))
    say(str(path))
