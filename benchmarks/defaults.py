"""The measurements behind the defaults: norms, gradients and layer distances at 2 bits on CIFAR-10.

    python benchmarks/defaults.py --jobs 2      trains what is missing below runs/defaults, then prints the table
    python benchmarks/defaults.py --table       prints the table of what is finished

Each cell trains the width-1 pre-activation ResNet-20 for a few epochs on a part of the real CIFAR-10, the same for
every cell: enough to tell the choices apart, far from converged. Cells can be stopped and continued at any point. The
numbers go to results/defaults.json.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pdqat.training import Run

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "runs" / "defaults"
RESULTS = ROOT / "results" / "defaults.json"

EPOCHS = 6
COMMON = ["--data", "cifar10", "--model", "preresnet20", "--bits", "2", "--epochs", str(EPOCHS), "--lr", "5e-3"]
COMMON += [
    "--train-images",
    "10000",
    "--validation",
    "0.04",
    "--dual-rate",
    str(1 / EPOCHS),
    "--compile",
    "--threads",
    "1",
]

RELATIVE = ["--layer-distance", "relative", "--layer-tolerance", "0.1"]
SQUARED = ["--layer-distance", "squared", "--layer-tolerance", "0.055"]
CELLS = {
    "relative, norm ste": [*RELATIVE, "--norm", "ste"],
    "relative, norm exact": [*RELATIVE, "--norm", "exact"],
    "squared, norm ste": [*SQUARED, "--norm", "ste"],
    "relative, straight-through": [*RELATIVE, "--gradient", "straight-through"],
    "DoReFa baseline": ["--method", "ste"],
    "relative, norm tied": [*RELATIVE, "--norm", "tied"],
    "output only, norm ste": ["--method", "pdqat-output", "--norm", "ste"],
    "squared, norm exact": [*SQUARED, "--norm", "exact"],
}


def folder(cell: str, seed: int) -> Path:
    return RUNS / f"{cell.replace(', ', '-').replace(' ', '-')}-{seed}"


def train(cell: str, seed: int) -> None:
    path = folder(cell, seed)
    if (path / "summary.json").exists():
        return
    command = [sys.executable, "-m", "pdqat.cli", "train"]
    command += (
        ["--resume", str(path)] if path.exists() else [*COMMON, *CELLS[cell], "--seed", str(seed), "--out", str(path)]
    )
    subprocess.run(command, check=True)


def finished(seeds: int) -> list[dict[str, Any]]:
    """One entry per finished cell and seed."""
    entries = []
    for cell in CELLS:
        for seed in range(seeds):
            path = folder(cell, seed)
            if (path / "summary.json").exists():
                run = Run.open(path)
                entries.append({"cell": cell, "seed": seed, "metrics": run.metrics(), **run.summary()})
    return entries


def show(entries: list[dict[str, Any]]) -> None:
    table = Table(title="2 bits, CIFAR-10, 10,000 training images, 6 epochs: test accuracy, mean (standard deviation)")
    for heading in ("cell", "n", "low precision", "full precision", "constraints met", "multipliers above 0"):
        table.add_column(heading)
    for cell in CELLS:
        of_cell = [entry for entry in entries if entry["cell"] == cell]
        if of_cell:
            total = len(of_cell[0]["constraints"])
            met = statistics.mean(sum(each["satisfied"] for each in entry["constraints"]) for entry in of_cell)
            above = statistics.mean(sum(each["multiplier"] > 0 for each in entry["constraints"]) for entry in of_cell)
            counts = [f"{met:.1f} of {total}", f"{above:.1f} of {total}"] if total else []
            views = ("2-bit", "full")
            row = [spread([entry["accuracy"].get(view, {}).get("test") for entry in of_cell]) for view in views]
            table.add_row(cell, str(len(of_cell)), *row, *counts)
    Console(width=110).print(table)


def spread(values: list[float | None]) -> str:
    found = [100 * value for value in values if value is not None]
    if not found:
        return ""
    deviation = f" ({statistics.stdev(found):.2f})" if len(found) > 1 else ""
    return f"{statistics.mean(found):.2f}{deviation}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="cells trained at once, one thread each")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="train nothing")
    options = parser.parse_args()
    if not options.table:
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda job: train(*job), [(cell, seed) for seed in range(options.seeds) for cell in CELLS]))
    entries = finished(options.seeds)
    if entries:
        about = {
            "date": date.today().isoformat(),
            "machine": f"{platform.machine()}, one thread a cell",
            "common": COMMON,
        }
        RESULTS.write_text(json.dumps({"about": about, "cells": entries}, indent=1) + "\n")
    show(entries)


if __name__ == "__main__":
    main()
