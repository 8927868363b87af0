"""`pdqat verify`: a file beside the run that it came from."""

import argparse
import json
from dataclasses import asdict

from rich.console import Console

from pdqat.commands.export import open_trained, test_batches
from pdqat.deployment.export import verify_file
from pdqat.deployment.formats import format_of
from pdqat.deployment.report import show_verified
from pdqat.errors import InputError


def run(options: argparse.Namespace) -> None:
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
