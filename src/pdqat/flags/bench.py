"""The flags of `pdqat bench`."""

from pathlib import Path
from typing import Any

from pdqat.flags.arguments import add_own_code


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser(
        "bench",
        help="time a file beside the float32 export of the same model",
        description="Latency and throughput in the installed runtimes, in turns with the float32 export of the model.",
    )
    parser.set_defaults(command="pdqat.commands.bench:run")
    parser.add_argument("file", type=Path, metavar="FILE", help="an ONNX file, or the .xml of OpenVINO's")
    parser.add_argument("--run", type=Path, metavar="RUN", help="its run folder (default: the folder of the file)")
    parser.add_argument("--plan", type=Path, metavar="PLAN", help="the plan that it was exported with")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_own_code(parser)
