"""What becomes of trained networks as files: agreement, accuracy, size and speed, over bits, formats, runtimes, widths.

    python benchmarks/deploy.py --jobs 2     trains what is missing below runs/deploy, exports and verifies it
    python benchmarks/deploy.py --speed      times the files; nothing else may run on the machine
    python benchmarks/deploy.py --table      prints the tables of what is finished

The width-1 pre-activation ResNet-20 is trained on CIFAR-10 for a few epochs at 8, 4, 2 and 1 bits, and under a mixed
plan from the 2-bit network. Every file is compared on all 10,000 test images with the simulated model. Speed does not
depend on what a network has learned, so wider ones are timed untrained. Everything can be stopped and continued. The
numbers go to results/deploy.json.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from cells import command, train
from measure import RESULTS, commit, machine, write
from rich.table import Table
from torch import fx

from pdqat import prepare
from pdqat.config.trained import Trained
from pdqat.deployment.bench import measure
from pdqat.deployment.export import export, write_float
from pdqat.deployment.following.follow import follow
from pdqat.deployment.formats import FORMATS
from pdqat.deployment.formats.onnx_file import to_onnx
from pdqat.deployment.formats.openvino_file import save, to_openvino
from pdqat.deployment.integer.freeze import freeze
from pdqat.disk import write_atomically
from pdqat.flags.arguments import count
from pdqat.models.preresnet import preresnet
from pdqat.runs.folder import Run
from pdqat.terminal import PlainConsole

FOLDER = Path(__file__).parents[1] / "runs" / "deploy"
NETWORKS = {"8": ["8"], "4": ["4"], "2": ["2"], "1": ["1"], "1-ste": ["1", "--method", "ste"]}
"""At 1 bit also by straight-through gradient, to compare with."""
LENGTH = "--train-images 20000 --epochs 3 --lr 1e-2 --schedule one-cycle --dual-rate 0.3 --compile --threads 1"
TRAINED = f"--preset deployable --data cifar10 --model preresnet20 --output-distance cross-entropy {LENGTH}".split(" ")
MIXED, MIXED_FROM, MIXED_BUDGET = "mixed", "2", "2.5 bits"
MIXED_TRAINED = ["--epochs", "1", "--lr", "2e-3", "--schedule", "steps"]
WIDE, WIDE_BATCHES = 5, (1, 16)
BINARY = "openvino"
"""The format that has a kernel of its own at 1 bit."""


def run_of(name: str) -> Run:
    return Run(FOLDER / (name if name == MIXED else f"{name}-bit"))


def has_binary_kernel(name: str) -> bool:
    return name in NETWORKS and NETWORKS[name][0] == "1"


def train_all(jobs: int) -> None:
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda name: train(run_of(name), [*TRAINED, "--bits", *NETWORKS[name]]), NETWORKS))
    plan, start = FOLDER / "mixed.toml", run_of(MIXED_FROM).path
    if not plan.exists():
        command("plan", str(start), "--budget", MIXED_BUDGET, "--out", str(plan))
    train(run_of(MIXED), [*MIXED_TRAINED, "--from", str(start), "--plan", str(plan)])


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What was measured before, or else now; with the code that it was measured on."""
    if not path.exists():
        content = {"commit": commit(), "date": machine()["date"], **make()}
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def deployed(name: str, console: PlainConsole) -> dict[str, Any]:
    """Sizes and verification of a run's files."""
    run = run_of(name)

    def make() -> dict[str, Any]:
        trained = Trained.open_finished(run.path, purpose="export")
        net, example, files = trained.problem.net, trained.example, []
        assert trained.loaders.test is not None
        write_float(net, run.path / "float32.onnx", example)
        for form in (FORMATS["onnx"], *([FORMATS[BINARY]] if has_binary_kernel(name) else [])):
            for pack in (False, True):
                path = run.path / f"{'packed' if pack else 'model'}{form.suffix}"
                report = export(
                    net,
                    path,
                    example,
                    check=trained.loaders.test,
                    pack=pack,
                    tell=lambda what: console.print(f"{name} bits: {what}"),
                )
                verified = [
                    {
                        **asdict(result),
                        "passes": result.passes,
                        "agreement": result.agreement,
                        "accuracy": result.accuracy,
                        "simulated_accuracy": result.simulated_accuracy,
                    }
                    for result in report.verified
                ]
                files.append({"format": form.name, "packed": pack, "bytes": report.bytes, "verified": verified})
        return {
            "plan": next(iter(run.summary()["plans"].values())),
            "accuracy": run.summary()["accuracy"],
            "folded": [asdict(rounding) for rounding in report.folded],
            "layers": report.layers,
            "float32_bytes": (run.path / "float32.onnx").stat().st_size,
            "files": files,
        }

    return {"name": name, **kept(run.path / "deployed.json", make)}


def timed(name: str, console: PlainConsole) -> dict[str, Any]:
    """Seconds of a run's files."""
    path = run_of(name).path

    def make() -> dict[str, Any]:
        files = [path / "model.onnx", *([path / "model.xml"] if has_binary_kernel(name) else [])]
        return _timed(name, files, path / "float32.onnx", console, (1, 64))

    return kept(path / "speed.json", make)


def timed_wide(bits: str, console: PlainConsole) -> dict[str, Any]:
    """The same for a wide network, which has not learned anything."""

    def make() -> dict[str, Any]:
        torch.manual_seed(0)
        example, model = torch.randn(8, 3, 32, 32), preresnet(20, WIDE)
        net = prepare(model, example, bits, quantizer="dorefa-int8", integer_sums=True).eval()
        followed = follow(net, example).module
        frozen = freeze(followed, next(iter(net.plans.values()))).module
        with tempfile.TemporaryDirectory() as scratch:
            files = [Path(scratch) / "model.onnx", Path(scratch) / "model.xml"]
            files[0].write_bytes(to_onnx(frozen, (example,)).SerializeToString())
            save(to_openvino(frozen, (example,), pack=False), files[1])
            reference = Path(scratch) / "float32.onnx"
            reference.write_bytes(to_onnx(fx.symbolic_trace(net.restore().eval()), (example,)).SerializeToString())
            return _timed(bits, files[: 2 if has_binary_kernel(bits) else 1], reference, console, WIDE_BATCHES)

    return kept(FOLDER / f"speed-wide-{bits}.json", make)


def _timed(
    name: str, files: list[Path], reference: Path, console: PlainConsole, batches: tuple[int, ...]
) -> dict[str, Any]:
    found = []
    for file in files:
        rows = measure(
            file, reference, torch.randn(8, 3, 32, 32), lambda what: console.print(f"{name} bits: {what}"), batches
        )
        form = BINARY if file.suffix == ".xml" else "onnx"
        found += [{"format": form, **asdict(each)} for each in rows]
    return {"rows": found}


def show(entries: list[dict[str, Any]], console: PlainConsole) -> None:
    table = Table(title="on all 10,000 test images")
    headings = ("accuracy", "simulated", "agreement", "codes that differ", "bytes", "packed", "float32")
    for heading in ("bits", "runtime", *headings):
        table.add_column(heading)
    for entry in entries:
        plain, packed = (
            next(each for each in entry["files"] if (each["format"], each["packed"]) == ("onnx", flag))
            for flag in (False, True)
        )
        for found in plain["verified"]:
            sizes = [f"{each:,}" for each in (plain["bytes"], packed["bytes"], entry["float32_bytes"])]
            shares = [f"{found[key]:.2%}" for key in ("accuracy", "simulated_accuracy", "agreement")]
            codes = found["codes"]
            counts = [sum(kind[key] for kind in (codes["exact"], codes["edge"])) for key in ("different", "count")]
            table.add_row(entry["name"], found["runtime"], *shares, "{} of {:,}".format(*counts), *sizes)
    console.print(table)
    table = Table(title="times the speed of float32 in the same runtime: median and quartiles")
    for heading in ("bits", "width", "format", "runtime", "threads", "batch", "times float32", "images/s"):
        table.add_column(heading)
    for entry in entries:
        for width, key in ((1, "speed"), (WIDE, "speed_wide")):
            for each in entry.get(key, {"rows": []})["rows"]:
                ratio = "{median:.2f} [{low:.2f}, {high:.2f}]".format(**each["ratio"])
                speed = f"{each['batch'] / each['integer']['median']:,.0f}"
                place = [entry["name"], width, each["format"], each["runtime"], each["threads"], each["batch"]]
                table.add_row(*(str(cell) for cell in place), ratio.replace("[", "\\["), speed)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=count, default=1, help="trainings at once, one thread each")
    parser.add_argument("--speed", action="store_true", help="time what is exported, train nothing")
    parser.add_argument("--table", action="store_true", help="train and time nothing")
    options = parser.parse_args()
    console = PlainConsole(width=120)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (options.table or options.speed):
        train_all(options.jobs)
    entries = []
    for name in (*NETWORKS, MIXED):
        path = run_of(name).path
        if not (path / "deployed.json").exists() and (options.table or options.speed):
            continue
        entry = deployed(name, console)
        if options.speed or (path / "speed.json").exists():
            entry["speed"] = timed(name, console)
        if NETWORKS.get(name) == [name] and (options.speed or (FOLDER / f"speed-wide-{name}.json").exists()):
            entry["speed_wide"] = timed_wide(name, console)
        entries.append(entry)
    if entries:
        write("deploy", {"trained": TRAINED, "mixed": MIXED_TRAINED, "networks": entries})
        show(entries, console)
        console.print(f"written: {RESULTS / 'deploy.json'}")


if __name__ == "__main__":
    main()
