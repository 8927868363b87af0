"""`pdqat sensitivity`."""

import argparse
from dataclasses import asdict

from pdqat.config.trained import Trained
from pdqat.printing import say, say_as_json
from pdqat.sensitivity import rank
from pdqat.sensitivity.ranking import NOTE
from pdqat.terminal import PlainConsole, is_limited, print_whole


def run(options: argparse.Namespace) -> None:
    """Rank, and show the ranking with its evidence."""
    trained = Trained.open_finished(options.run, options.model, options.data, "rank")
    history, batches = trained.history(), trained.loaders.validation
    ranking = rank(trained.problem, batches, options.rank, samples=options.images, history=history)
    if options.json:
        say_as_json([asdict(layer) for layer in ranking.layers])
    elif options.csv:
        say(ranking.csv(), end="")
    else:
        console = PlainConsole()
        print_whole(console, ranking.table())
        console.print(NOTE, soft_wrap=not is_limited(console))
