"""`pdqat verify`: a file beside the run that it came from."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from pdqat.commands.arguments import add_own_code
from pdqat.commands.export import open_trained, test_batches
from pdqat.deployment.export import verify_file
from pdqat.deployment.formats import format_of
from pdqat.deployment.report import show_verified
from pdqat.errors import InputError


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser(
        "verify",
        help="compare a file with the run it came from",
        description="Run a file on the test images: codes, choices and accuracy beside the run's model.",
    )
    parser.set_defaults(command=run_verify)
    parser.add_argument("file", type=Path, metavar="FILE", help="an ONNX file, or the .xml of OpenVINO's")
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--plan", type=Path, metavar="PLAN", help="the plan that it was exported with")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_own_code(parser)


def run_verify(options: argparse.Namespace) -> None:
    """Show what was found; a file that does not pass is an error."""
    format_of(options.file)  # says what is wrong with the file before the run is opened
    console = Console(stderr=options.json)
    with console.status("opening the run") as status:
        trained = open_trained(options, options.run, "verify")
        net, example = trained.problem.net, trained.example
        verified = verify_file(net, None, options.file, example, test_batches(trained), status.update)
    if options.json:
        results = [
            {**asdict(result), "passes": result.passes, "agreement": result.agreement, "accuracy": result.accuracy}
            for result in verified
        ]
        print(json.dumps(results, indent=2))
    else:
        console.print(show_verified(verified), highlight=False, markup=False, soft_wrap=True)
    failed = [result.runtime for result in verified if not result.passes]
    if failed:
        raise InputError(f"{options.file} does not pass in {', '.join(failed)}")
