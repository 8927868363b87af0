"""`pdqat export`: a run's low-precision model as a file of integers, verified."""

import argparse
from pathlib import Path

from pdqat.batches import Batches
from pdqat.config.trained import Trained
from pdqat.deployment.export import export
from pdqat.deployment.formats import FORMATS
from pdqat.deployment.microcontroller.beside import measure_beside
from pdqat.deployment.microcontroller.measurement import CoreMeasurement
from pdqat.runs.exports_file import note_exported, note_on_core
from pdqat.runs.folder import check_no_file_of_a_run
from pdqat.terminal import PlainConsole


def run(options: argparse.Namespace) -> None:
    """Write the file and show what was found."""
    path = options.out or options.run / FORMATS[options.format].file
    check_no_file_of_a_run(path)
    console = PlainConsole()
    with console.status("opening the run") as status:
        trained = open_trained(options, options.run, "export")
        report = export(
            trained.problem.net,
            path,
            trained.example,
            check=test_batches(trained),
            format=options.format,
            pack=options.pack,
            tell=status.update,
        )
        told = [str(report)]
        measured: dict[str, CoreMeasurement] = {}
        if FORMATS[options.format].is_folder:
            status.update("running on the emulated Arm core")
            measured, text = measure_beside(report.path, trained.problem.net, trained.example)
            told.append(text)
    if options.plan is None:
        note_exported(trained.run, path, report)
        if measured:
            note_on_core(trained.run, path, measured)
    console.print("\n".join(told), soft_wrap=True)


def open_trained(options: argparse.Namespace, run: Path, purpose: str) -> Trained:
    """A run's best model, under the plan of the flags if there is one."""
    trained = Trained.open_finished(run, options.model, options.data, purpose)
    return trained if options.plan is None else trained.under_plan(options.plan)


def test_batches(trained: Trained) -> Batches:
    """The test images; those of validation for a run whose own data has none."""
    loaders = trained.loaders
    return loaders.validation if loaders.test is None else loaders.test
