"""Cells: training runs on CIFAR-10 that differ in a few options, resumable, and the table of what is finished."""

import argparse
import json
import platform
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from rich.table import Table

from pdqat.runs.folder import Run
from pdqat.terminal import PlainConsole

ROOT = Path(__file__).parents[1]

EPOCHS = 6
COMMON = "--data cifar10 --model preresnet20 --bits 2 --lr 5e-3 --train-images 10000 --validation 0.04"
SHORT_TRAINING = f"{COMMON} --epochs {EPOCHS} --quantizer dorefa --norm-batches 0 --compile --threads 1".split(" ")
"""The width-1 network for a few epochs on a part of the real data: tells choices apart, far from converged."""

CONSTRAINED = f"--objective full --dual-rate {1 / EPOCHS} --output-distance cross-entropy".split(" ")
"""The paper's problem."""
RELATIVE = [*CONSTRAINED, "--layer-distance", "relative", "--layer-tolerance", "0.1"]


def command(*arguments: str) -> None:
    """A command of pdqat's, silent unless it fails."""
    subprocess.run([sys.executable, "-m", "pdqat", *arguments], check=True, stdout=subprocess.DEVNULL)


def train(run: Run, arguments: list[str]) -> None:
    """To its end, from wherever it is."""
    if not run.summary_file.exists():
        command("train", *(["--resume"] if run.path.exists() else [*arguments, "--out"]), str(run.path))


@dataclass(frozen=True)
class Cells:
    """Named variants of SHORT_TRAINING; run folders are below runs/NAME, results in results/NAME.json."""

    name: str
    variants: dict[str, list[str]]

    def main(self, description: str | None) -> None:
        """Train what is missing, then write and print what is finished."""
        parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )
        parser.add_argument("--jobs", type=int, default=1, help="cells trained at once, one thread each")
        parser.add_argument("--seeds", type=int, default=1)
        parser.add_argument("--table", action="store_true", help="train nothing")
        options = parser.parse_args()
        if not options.table:
            jobs = [(cell, seed) for seed in range(options.seeds) for cell in self.variants]
            with ThreadPoolExecutor(options.jobs) as pool:
                list(pool.map(lambda job: self._train(*job), jobs))
        entries = self._finished()
        if entries:
            machine = f"{platform.machine()}, one thread a cell"
            about = {"date": date.today().isoformat(), "machine": machine, "common": SHORT_TRAINING}
            results = ROOT / "results" / f"{self.name}.json"
            results.write_text(json.dumps({"about": about, "cells": entries}, indent=1) + "\n")
        self._show(entries)

    def _folder(self, cell: str, seed: int) -> Path:
        return ROOT / "runs" / self.name / f"{cell.replace(', ', '-').replace(' ', '-')}-{seed}"

    def _train(self, cell: str, seed: int) -> None:
        train(Run(self._folder(cell, seed)), [*SHORT_TRAINING, *self.variants[cell], "--seed", str(seed)])

    def _finished(self) -> list[dict[str, Any]]:
        """One entry per finished cell and seed."""
        entries = []
        for cell in self.variants:
            seeds = (int(path.name.rpartition("-")[2]) for path in self._folder(cell, 0).parent.glob("*-[0-9]*"))
            for seed in sorted(set(seeds)):
                path = self._folder(cell, seed)
                if (path / "summary.json").exists():
                    run = Run.open(path)
                    entries.append({"cell": cell, "seed": seed, "metrics": run.metrics(), **run.summary()})
        return entries

    def _show(self, entries: list[dict[str, Any]]) -> None:
        title = "2 bits, CIFAR-10, 10,000 training images, 6 epochs: test accuracy, mean (standard deviation)"
        table = Table(title=title)
        for heading in ("cell", "n", "low precision", "full precision", "constraints met", "multipliers above 0"):
            table.add_column(heading)
        for cell in self.variants:
            of_cell = [entry for entry in entries if entry["cell"] == cell]
            if of_cell:
                total = len(of_cell[0]["constraints"])
                met = statistics.mean(sum(bound["satisfied"] for bound in entry["constraints"]) for entry in of_cell)
                above = statistics.mean(
                    sum(bound["multiplier"] > 0 for bound in entry["constraints"]) for entry in of_cell
                )
                counts = [f"{met:.1f} of {total}", f"{above:.1f} of {total}"] if total else []
                views = ("2-bit", "full")
                row = [spread([_percent(entry, view) for entry in of_cell]) for view in views]
                table.add_row(cell, str(len(of_cell)), *row, *counts)
        PlainConsole(width=110).print(table)


def _percent(entry: dict[str, Any], view: str) -> float | None:
    accuracy = entry["accuracy"].get(view)
    return None if accuracy is None else 100 * accuracy["test"]


def spread(values: list[float | None]) -> str:
    """Mean (standard deviation) of those that are there."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    deviation = f" ({statistics.stdev(known):.2f})" if len(known) > 1 else ""
    return f"{statistics.mean(known):.2f}{deviation}"
