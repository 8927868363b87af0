"""What becomes of trained networks as files: agreement, accuracy, size and speed, over bits, formats, runtimes, widths.

    python benchmarks/deploy.py --jobs 2     trains what is missing below runs/deploy, exports and verifies it
    python benchmarks/deploy.py --speed      times untrained ones on this processor (benchmarks/deploy_speeds.py);
                                             nothing else may run on the machine
    python benchmarks/deploy.py --table      prints the tables of what is finished

The width-1 pre-activation ResNet-20 is trained on CIFAR-10 for a few epochs at 8, 4, 2 and 1 bits, and under a mixed
plan from the 2-bit network. Every file is compared on all 10,000 test images with the simulated model. Speeds are kept
by kind of processor. Everything can be stopped and continued. The numbers go to results/deploy.json.
"""

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cells import command, train
from deploy_speeds import FILE, show_speeds, time_all
from measure import commit, machine, write
from rich.table import Table

from pdqat.config.trained import Trained
from pdqat.deployment.export import export, write_float
from pdqat.deployment.formats import FORMATS
from pdqat.disk import write_atomically
from pdqat.flags.arguments import count
from pdqat.runs.folder import Run
from pdqat.terminal import PlainConsole

FOLDER = Path(__file__).parents[1] / "runs" / "deploy"
NETWORKS = {"8": ["8"], "4": ["4"], "2": ["2"], "1": ["1"], "1-ste": ["1", "--method", "ste"]}
"""At 1 bit also by straight-through gradient, to compare with."""
LENGTH = "--train-images 20000 --epochs 3 --lr 1e-2 --schedule one-cycle --dual-rate 0.3 --compile --threads 1"
TRAINED = f"--preset deployable --data cifar10 --model preresnet20 --output-distance cross-entropy {LENGTH}".split(" ")
MIXED, MIXED_FROM, MIXED_BUDGET = "mixed", "2", "2.5 bits"
MIXED_TRAINED = ["--epochs", "1", "--lr", "2e-3", "--schedule", "steps"]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=count, default=1, help="trainings at once, one thread each")
    parser.add_argument("--speed", action="store_true", help="time untrained networks on this processor, train nothing")
    parser.add_argument("--table", action="store_true", help="train and time nothing")
    options = parser.parse_args()
    console = PlainConsole(width=120)
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = json.loads(FILE.read_text())
    if options.speed:
        time_all(console)
    elif not options.table:
        train_all(options.jobs)
        entries = [deployed(name, console) for name in (*NETWORKS, MIXED)]
        write("deploy", {"trained": TRAINED, "mixed": MIXED_TRAINED, "networks": entries, "speeds": content["speeds"]})
    content = json.loads(FILE.read_text())
    show(content["networks"], console)
    show_speeds(content["speeds"], console)


if __name__ == "__main__":
    main()
