"""`pdqat bench`: how fast a file is beside the float32 export of the same model."""

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from pdqat.commands.export import open_trained
from pdqat.deployment.bench import measure, show_timed
from pdqat.deployment.export import write_float
from pdqat.deployment.formats import check_runnable
from pdqat.errors import InputError


def run(options: argparse.Namespace) -> None:
    """Time the file and show it."""
    check_runnable(options.file)
    folder = options.run or options.file.parent
    if not (folder / "config.toml").exists():
        raise InputError(f"{folder} is not a run folder: give the run that {options.file.name} was exported from")
    console = Console(stderr=options.json)
    with console.status("opening the run") as status, tempfile.TemporaryDirectory() as scratch:
        trained, float32 = open_trained(options, folder, "bench"), Path(scratch) / "float32.onnx"
        write_float(trained.problem.net, float32, trained.example)
        timed = measure(options.file, float32, trained.example, status.update)
    if options.json:
        print(json.dumps([asdict(row) for row in timed], indent=2))
    else:
        show_timed(timed, console)
