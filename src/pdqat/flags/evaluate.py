"""The flags of `pdqat eval`."""

from typing import Any

from pdqat.flags.arguments import add_own_code, path


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser("eval", help="measure a run's model again")
    parser.set_defaults(command="pdqat.commands.evaluate:run")
    parser.add_argument("run", type=path, metavar="RUN", help="run folder")
    parser.add_argument("--part", choices=("test", "validation"), default="test", help="which images (default: test)")
    parser.add_argument("--checkpoint", choices=("best", "last"), default="best", help="which state (default: best)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    add_own_code(parser)
