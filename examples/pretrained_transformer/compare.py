"""Post-training quantisation, straight-through and constrained fine-tuning, at the same steps on the same batches.

    python examples/pretrained_transformer/compare.py                   # what is missing in results/minilm.json
    python examples/pretrained_transformer/compare.py --speed           # times the files; run it alone
    python examples/pretrained_transformer/compare.py --write docs/pretrained-transformer.md     # what is there

Protocol: for each seed and precision, so many steps of Adam on 16 sentences each, in four epochs of which the best on
validation stays. The test part of the STS Benchmark (300 pairs of at most 16 tokens, from all its sources) is looked at
once, at the end. The first seed of the constrained W4A8 model goes on to a plan and a file. Can be stopped and
continued: every cell is written when it is finished. One thread; a cell takes minutes.
"""

import argparse
import json
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path

import torch
from methods import METHODS, SETTINGS, away, fine_tune, likeness, prepared
from road import BITS, go_on, speed
from sentences import Data, Embedder
from tables import AFTER_CALIBRATION, CONSTRAINED, Cell, in_page

import pdqat
from pdqat.disk import write_atomically
from pdqat.process import keep_freed_memory, processor
from pdqat.task import Problem

RESULTS = Path(__file__).parents[2] / "results" / "minilm.json"
FOLDER = Path(__file__).parents[2] / "runs" / "minilm"


def cell(bits: str, method: str, seed: int, steps: int, data: Data) -> tuple[Cell, Problem]:
    """One way at one precision, measured, and what came of it."""
    started = time.process_time()
    net = prepared(bits, data)
    problem = pdqat.TaskProblem(net, away) if method == AFTER_CALIBRATION else METHODS[method](net, bits)
    if method != AFTER_CALIBRATION:
        fine_tune(problem, data, steps, seed)
    trained = time.process_time()
    result = {
        "bits": bits,
        "method": method,
        "seed": seed,
        "steps": steps,
        "processor_seconds": trained - started,
        **{view: vars(found) for view, found in likeness(problem, data).items()},
        "constraints": pdqat.evaluate(problem, data.validation).constraints,
        "processor": processor(),
        "torch": torch.__version__,
        "date": date.today().isoformat(),
    }
    return result, problem


def cells(steps: int, seeds: int) -> list[tuple[str, str, int, int]]:
    """All that is to be computed: bits, method, seed and steps."""
    calibrated = [(bits, AFTER_CALIBRATION, 0, 0) for bits in SETTINGS]
    return calibrated + [
        (bits, method, seed, steps) for seed in range(seeds) for bits in SETTINGS for method in METHODS
    ]


def compare(file: Path, steps: int, seeds: int, data: Data, folder: Path) -> list[Cell]:
    """Compute what is missing in the file."""
    found: list[Cell] = json.loads(file.read_text())["cells"] if file.exists() else []
    for bits, method, seed, of_steps in cells(steps, seeds):
        if [
            it for it in found if (it["bits"], it["method"], it["seed"], it["steps"]) == (bits, method, seed, of_steps)
        ]:
            continue
        print(bits, method, seed, of_steps, flush=True)
        result, problem = cell(bits, method, seed, of_steps, data)
        found.append(result)
        _write(file, found)
        if isinstance(problem, pdqat.Lagrangian) and (bits, method, seed) == (BITS, CONSTRAINED, 0):
            result["road"] = go_on(problem, data, steps // 2, folder)
            _write(file, found)
    return found


def time_files(file: Path, folder: Path) -> None:
    """Time the files that the comparison left, and add that to its results."""
    timed = [{**asdict(row), "processor": processor(), "date": date.today().isoformat()} for row in speed(folder)]
    results = {**json.loads(file.read_text()), "speed": timed}
    write_atomically(file, json.dumps(results, indent=1).encode() + b"\n")


def _write(file: Path, found: list[Cell]) -> None:
    before = json.loads(file.read_text()) if file.exists() else {}
    results = {**before, "protocol": __doc__, "cells": found}
    write_atomically(file, json.dumps(results, indent=1).encode() + b"\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--file", type=Path, default=RESULTS)
    parser.add_argument("--speed", action="store_true", help="compute nothing, and time the files")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="compute nothing, and put the tables into this page")
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    if given.speed:
        time_files(given.file, FOLDER)
    elif given.write is not None:
        page = in_page(given.write.read_text(), json.loads(given.file.read_text()))
        write_atomically(given.write, page.encode())
    else:
        compare(given.file, given.steps, given.seeds, Data.of(Embedder()), FOLDER)
