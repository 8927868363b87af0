"""`pdqat eval`."""

import argparse

from pdqat.config.trained import Trained
from pdqat.errors import InputError
from pdqat.evaluation import evaluate
from pdqat.evidence import bound_tables, score_table
from pdqat.printing import say_as_json
from pdqat.terminal import PlainConsole, print_whole


def run(options: argparse.Namespace) -> None:
    """Measure, and show scores and constraints."""
    trained = Trained.open(options.run, options.model, options.data, checkpoint=options.checkpoint)
    batches = trained.loaders.test if options.part == "test" else trained.loaders.validation
    if batches is None:
        raise InputError(f"the run {options.run} has no test samples; measure it with --part validation")
    measured = evaluate(trained.problem, batches)
    if options.json:
        scores = {"metric": measured.metric.name, measured.metric.name: measured.scores}
        say_as_json({"part": options.part, **scores, "constraints": measured.constraints})
        return
    console = PlainConsole()
    title = f"{measured.metric.name.replace('_', ' ')} on {options.part} images"
    print_whole(console, score_table(measured.metric, {measured.metric.name: measured.scores}, title))
    for table in bound_tables(measured.constraints, measured.plans):
        print_whole(console, table)
