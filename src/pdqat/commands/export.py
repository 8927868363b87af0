"""`pdqat export`: a run's low-precision model as a file of integers, verified."""

import argparse
from pathlib import Path

from rich.console import Console

from pdqat.batches import Batches
from pdqat.config.trained import Trained
from pdqat.deployment.export import export
from pdqat.deployment.formats import FORMATS


def run(options: argparse.Namespace) -> None:
    """Write the file and show what was found."""
    console = Console()
    with console.status("opening the run") as status:
        trained = open_trained(options, options.run, "export")
        report = export(
            trained.problem.net,
            options.out or options.run / FORMATS[options.format].file,
            trained.example,
            check=test_batches(trained),
            format=options.format,
            pack=options.pack,
            tell=status.update,
        )
    console.print(str(report), highlight=False, markup=False, soft_wrap=True)


def open_trained(options: argparse.Namespace, run: Path, purpose: str) -> Trained:
    """A run's best model, under the plan of the flags if there is one."""
    trained = Trained.open_finished(run, options.model, options.data, purpose)
    return trained if options.plan is None else trained.under_plan(options.plan)


def test_batches(trained: Trained) -> Batches:
    """The test images; those of validation for a run whose own data has none."""
    loaders = trained.loaders
    return loaders.validation if loaders.test is None else loaders.test
