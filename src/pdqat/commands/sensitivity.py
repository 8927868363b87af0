"""`pdqat sensitivity`."""

import argparse
import json
from dataclasses import asdict

from rich.console import Console

from pdqat.config.trained import Trained
from pdqat.sensitivity import rank
from pdqat.sensitivity.ranking import NOTE
from pdqat.terminal import is_limited, print_whole


def run(options: argparse.Namespace) -> None:
    """Rank, and show the ranking with its evidence."""
    trained = Trained.open_finished(options.run, options.model, options.data, "rank")
    history, batches = trained.history(), trained.loaders.validation
    ranking = rank(trained.problem, batches, options.rank, samples=options.images, history=history)
    if options.json:
        print(json.dumps([asdict(layer) for layer in ranking.layers], indent=2))
    elif options.csv:
        print(ranking.csv(), end="")
    else:
        console = Console()
        print_whole(console, ranking.table())
        console.print(NOTE, soft_wrap=not is_limited(console), highlight=False)
