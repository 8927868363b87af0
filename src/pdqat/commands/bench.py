"""`pdqat bench`: how fast a file is beside the float32 export of the same model, or what a C folder takes."""

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path

from pdqat.commands.export import open_trained
from pdqat.deployment.bench import measure, show_timed
from pdqat.deployment.export import write_float
from pdqat.deployment.formats import check_runnable
from pdqat.deployment.microcontroller.beside import measure_exported
from pdqat.deployment.microcontroller.measurement import show_measured
from pdqat.errors import InputError
from pdqat.printing import say_as_json
from pdqat.runs.exports_file import note_on_core, note_timed
from pdqat.terminal import PlainConsole


def run(options: argparse.Namespace) -> None:
    """Time the file, or measure the folder, and show it."""
    is_folder = options.file.is_dir()
    if not is_folder:
        check_runnable(options.file)
    run_folder = options.run or options.file.absolute().parent
    if not (run_folder / "config.toml").exists():
        raise InputError(f"{run_folder} is not a run folder: give the run that {options.file.name} was exported from")
    (_measure_folder if is_folder else _time_file)(options, run_folder)


def _measure_folder(options: argparse.Namespace, run_folder: Path) -> None:
    console = PlainConsole(stderr=options.json)
    with console.status("opening the run") as status:
        trained = open_trained(options, run_folder, "bench")
        status.update("running on the emulated Arm core")
        measured = measure_exported(options.file, trained.problem.net, trained.example)
    if options.plan is None:
        note_on_core(trained.run, options.file, {options.file.name: measured})
    if options.json:
        say_as_json(asdict(measured))
    else:
        console.print(show_measured({options.file.name: measured}), soft_wrap=True)


def _time_file(options: argparse.Namespace, run_folder: Path) -> None:
    console = PlainConsole(stderr=options.json)
    with console.status("opening the run") as status, tempfile.TemporaryDirectory() as scratch:
        trained, float32 = open_trained(options, run_folder, "bench"), Path(scratch) / "float32.onnx"
        write_float(trained.problem.net, float32, trained.example)
        timed = measure(options.file, float32, trained.example, status.update)
    if options.plan is None:
        note_timed(trained.run, options.file, timed)
    if options.json:
        say_as_json([asdict(row) for row in timed])
    else:
        show_timed(timed, console)
