"""The flags of `pdqat report`."""

from typing import Any

from pdqat.flags.arguments import add_own_code, path


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser(
        "report",
        help="write a run, or several side by side, as one HTML page",
        description="One HTML file that opens from disk: scores, constraints, rankings, plan, frontier, histograms, "
        "signal-to-noise, size, disagreements, verification and provenance; several runs beside each other.",
    )
    parser.set_defaults(command="pdqat.commands.report:run")
    parser.add_argument("runs", type=path, nargs="+", metavar="RUN", help="run folder")
    parser.add_argument(
        *("-o", "--out"),
        type=path,
        metavar="FILE",
        help="where to write the page (default: RUN/report.html, or ./report.html for several runs)",
    )
    add_own_code(parser)
