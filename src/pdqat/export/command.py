"""`pdqat export`, `pdqat verify` and `pdqat bench`."""

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from pdqat.errors import InputError
from pdqat.export.chosen import Chosen, chosen_model, write_float
from pdqat.export.deploy import describe, passes, verify_file, write_file
from pdqat.export.formats import FORMATS, format_of
from pdqat.export.speed import measure
from pdqat.export.verify import Verified
from pdqat.terminal import new_table, print_whole
from pdqat.training import Run


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    export = commands.add_parser(
        "export",
        help="write a run's low-precision model as a file of integers",
        description="Write a run's chosen model as integers, and verify the file in the installed runtimes.",
    )
    export.set_defaults(command=_export)
    export.add_argument("run", type=Path, metavar="RUN", help="run folder")
    about = "; ".join(f"{each.name}: {each.about}" for each in FORMATS.values())
    export.add_argument("--format", choices=list(FORMATS), default="onnx", help=f"{about} (default: onnx)")
    names = ", ".join(each.file for each in FORMATS.values())
    export.add_argument("--out", type=Path, metavar="FILE", help=f"(default: in the run folder {names})")
    export.add_argument("--plan", type=Path, metavar="PLAN", help="another plan than the run's")
    export.add_argument("--pack", action="store_true", help="store weights in the bits that they need")

    verify = commands.add_parser(
        "verify",
        help="compare a file with the run it came from",
        description="Run a file on the test images: codes, choices and accuracy beside the run's model.",
    )
    verify.set_defaults(command=_verify)
    verify.add_argument("file", type=Path, metavar="FILE", help="an ONNX file, or the .xml of OpenVINO's")
    verify.add_argument("run", type=Path, metavar="RUN", help="run folder")
    verify.add_argument("--plan", type=Path, metavar="PLAN", help="the plan that it was exported with")
    verify.add_argument("--json", action="store_true", help="print JSON")

    bench = commands.add_parser(
        "bench",
        help="time a file beside the float32 export of the same model",
        description="Latency and throughput in the installed runtimes, in turns with the float32 export of the model.",
    )
    bench.set_defaults(command=_bench)
    bench.add_argument("file", type=Path, metavar="FILE", help="an ONNX file, or the .xml of OpenVINO's")
    bench.add_argument("--run", type=Path, metavar="RUN", help="its run folder (default: the folder of the file)")
    bench.add_argument("--plan", type=Path, metavar="PLAN", help="the plan that it was exported with")
    bench.add_argument("--json", action="store_true", help="print JSON")


def _bench(options: argparse.Namespace) -> None:
    folder = options.run or options.file.parent
    if not options.file.is_file():
        raise InputError(f"there is no file {options.file}")
    form = format_of(options.file)
    if not form.in_integers:
        raise InputError(f"{options.file} is a {form.name} file, which no runtime runs as it is: bench the onnx one")
    if not (folder / "config.toml").exists():
        raise InputError(f"{folder} is not a run folder: give the run that {options.file.name} was exported from")
    console = Console(stderr=options.json)
    with console.status("making the float32 file to compare with") as status, tempfile.TemporaryDirectory() as scratch:
        reference = Path(scratch) / "float32.onnx"
        chosen = chosen_model(Run.open(folder), options.plan)
        write_float(chosen, reference)
        found = measure(options.file, reference, tuple(chosen.example.shape[1:]), status.update)
    if options.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return
    table = new_table("beside the float32 export of the same model: median, quartiles")
    for heading in ("runtime", "threads", "batch", "ms", "float32 ms", "images/s", "times float32"):
        table.add_column(heading, justify="right")
    for each in found:
        times = [str(value.times(1000)) for value in (each.integer, each.float32)]
        speed = f"{each.batch / each.integer.median:,.0f}"
        row = [each.runtime, str(each.threads), str(each.batch), *times, speed, str(each.ratio)]
        table.add_row(*(escape(cell) for cell in row))
    print_whole(Console(), table)


def _export(options: argparse.Namespace) -> None:
    run = Run.open(options.run)
    form = FORMATS[options.format]
    path = options.out or options.run / form.file
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to write {path.name} into")
    console = Console()
    with console.status("folding the network into integers") as status:
        chosen = chosen_model(run, options.plan)
        found = write_file(chosen, path, form, options.pack, status.update)
        if form.in_integers:
            status.update("comparing the integer reference with the simulated model")
            layers = chosen.layers
    if form.in_integers:
        _show_folded(console, chosen)
        _show_layers(console, layers)
    _show_verified(console, found)
    size = sum(path.with_suffix(each).stat().st_size for each in form.suffixes)
    weights = 4 * sum(each.numel() for name, each in chosen.setup.net.named_parameters() if ".views." not in name)
    _line(console, f"{path}: {size:,} bytes, {size / weights:.1%} of the {weights:,} of the weights in float32")


def _verify(options: argparse.Namespace) -> None:
    run = Run.open(options.run)
    console = Console(stderr=options.json)
    with console.status("folding the network into integers") as status:
        chosen = chosen_model(run, options.plan)
        found = verify_file(chosen, options.file, status.update)
        status.update("comparing the integer reference with the simulated model")
        layers = chosen.layers if format_of(options.file).in_integers else {}
    if options.json:
        every = [{**asdict(each), "passes": passes(each), "layers": layers} for each in found]
        print(json.dumps(every, indent=2))
    else:
        _show_verified(console, found)
        _show_layers(console, layers)
    failed = [each.runtime for each in found if not passes(each)]
    if failed:
        raise InputError(f"{options.file} does not pass in {', '.join(failed)}")


def _show_folded(console: Console, chosen: Chosen) -> None:
    folded = chosen.frozen.folded
    channels, exact = sum(each.channels for each in folded), sum(each.exact for each in folded)
    _line(console, f"{exact} of {channels} channels give the codes of float32 for every integer within reach")
    _line(console, f"in real numbers: {', '.join(chosen.frozen.real_layers) or 'no layer'}")


def _show_verified(console: Console, found: list[Verified]) -> None:
    for each in found:
        _line(
            console, f"{each.runtime}: {'pass' if passes(each) else 'FAIL'}, {each.images:,} images, {describe(each)}"
        )


def _show_layers(console: Console, layers: dict[str, float]) -> None:
    if not layers:
        return
    same = sum(part == 1 for part in layers.values())
    least = min(layers, key=lambda name: layers[name])
    worst = f"; {least} the fewest, {layers[least]:.4%}" if layers[least] < 1 else ""
    _line(console, f"{same} of {len(layers)} layers read the codes of the simulated model in the reference{worst}")


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
