"""The flags of `pdqat export`."""

from typing import Any

from pdqat.config.words import FORMATS
from pdqat.flags.arguments import add_own_code, path


def add_command(commands: Any) -> None:
    """Add it to the command line."""
    parser = commands.add_parser(
        "export",
        help="write a run's low-precision model as a file of integers",
        description="Write a run's best model as integers, and verify the file in the installed runtimes.",
    )
    parser.set_defaults(command="pdqat.commands.export:run")
    parser.add_argument("run", type=path, metavar="RUN", help="run folder")
    about = "; ".join(f"{name}: {text}" for name, text in FORMATS.items())
    parser.add_argument("--format", choices=tuple(FORMATS), default="onnx", help=f"{about} (default: onnx)")
    names = "model.onnx, model.xml, model-qonnx.onnx, model.pt2 or model-c, by the format"
    parser.add_argument("--out", type=path, metavar="FILE", help=f"(default: in the run folder {names})")
    parser.add_argument("--plan", type=path, metavar="PLAN", help="another plan than the run's")
    parser.add_argument("--pack", action="store_true", help="store weights in the bits that they need")
    add_own_code(parser)
