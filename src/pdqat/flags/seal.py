"""The flags of `pdqat seal`."""

from typing import Any

from pdqat.flags.arguments import path


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser(
        "seal",
        help="accept the files of a run as they are, after they were edited on purpose",
        description="A run's own files are sealed by sums: an edited one is refused until the run is sealed anew.",
    )
    parser.set_defaults(command="pdqat.commands.seal:run")
    parser.add_argument("run", type=path, metavar="RUN", help="run folder")
