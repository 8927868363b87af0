"""`pdqat verify`: a file beside the run that it came from."""

import argparse

from pdqat.commands.export import open_trained, test_batches
from pdqat.deployment.export import verify_file
from pdqat.deployment.formats import format_of
from pdqat.deployment.report import show_verified, verified_entry
from pdqat.errors import InputError
from pdqat.printing import say_as_json
from pdqat.runs.exports_file import note_verified
from pdqat.terminal import PlainConsole


def run(options: argparse.Namespace) -> None:
    """Show what was found; a file that does not pass is an error."""
    format_of(options.file)  # says what is wrong with the file before the run is opened
    console = PlainConsole(stderr=options.json)
    with console.status("opening the run") as status:
        trained = open_trained(options, options.run, "verify")
        net, example = trained.problem.net, trained.example
        check = test_batches(trained)
        verified = verify_file(net, None, options.file, example, check, status.update, options.close)
    if options.plan is None:
        note_verified(trained.run, options.file, verified)
    if options.json:
        say_as_json([verified_entry(result) for result in verified])
    else:
        console.print(show_verified(verified), soft_wrap=True)
    failed = [result.runtime for result in verified if not result.passes]
    if failed:
        raise InputError(f"{options.file} does not pass in {', '.join(failed)}")
