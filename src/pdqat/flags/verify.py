"""The flags of `pdqat verify`."""

from typing import Any

from pdqat.flags.arguments import add_own_code, count, path


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser(
        "verify",
        help="compare a file with the run it came from",
        description="Run a file on the test images: codes, choices and accuracy beside the run's model.",
    )
    parser.set_defaults(command="pdqat.commands.verify:run")
    parser.add_argument(
        "file",
        type=path,
        metavar="FILE",
        help="an ONNX file, the .xml of OpenVINO's, or a folder of C, which is compiled and run",
    )
    parser.add_argument("run", type=path, metavar="RUN", help="run folder")
    parser.add_argument("--plan", type=path, metavar="PLAN", help="the plan that it was exported with")
    parser.add_argument(
        "--close",
        type=count,
        metavar="N",
        help="compare every code of the first N test images (default: 500); choices are compared for all",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_own_code(parser)
