"""The flags of `pdqat bench`."""

from typing import Any

from pdqat.flags.arguments import add_own_code, path


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser(
        "bench",
        help="time a file beside the float32 export of the same model, or measure a C folder",
        description="Latency and throughput in the installed runtimes, in turns with the float32 export of the model; "
        "of a C folder the flash, RAM and instructions an image on an emulated Arm Cortex-M3.",
    )
    parser.set_defaults(command="pdqat.commands.bench:run")
    parser.add_argument(
        "file", type=path, metavar="FILE", help="an ONNX file, the .xml of OpenVINO's, or a folder of C"
    )
    parser.add_argument("--run", type=path, metavar="RUN", help="its run folder (default: the folder of the file)")
    parser.add_argument("--plan", type=path, metavar="PLAN", help="the plan that it was exported with")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_own_code(parser)
