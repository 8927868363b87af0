"""Post-training quantisation, straight-through and constrained fine-tuning, at the same steps on the same batches.

    python examples/pretrained_transformer/compare.py                   # what is missing in results/minilm.json
    python examples/pretrained_transformer/compare.py --table           # what is there, as the page shows it

Protocol: for each seed and precision, so many steps of Adam on 16 sentences each, in four epochs of which the best on
validation stays. The test part of the STS Benchmark (300 pairs of at most 16 tokens, from all its sources) is looked at
once, at the end. The first seed of the constrained W4A8 model goes on to a plan and a file. Can be stopped and
continued: every cell is written when it is finished. One thread; a cell takes minutes.
"""

import argparse
import json
import statistics
import time
from datetime import date
from pathlib import Path
from typing import Any

import torch
from methods import METHODS, SETTINGS, away, fine_tune, likeness, prepared
from road import BITS, go_on
from sentences import Data, Embedder, Likeness

import pdqat
from pdqat.disk import write_atomically
from pdqat.process import keep_freed_memory, processor
from pdqat.task import Problem

RESULTS = Path(__file__).parents[2] / "results" / "minilm.json"
FOLDER = Path(__file__).parents[2] / "runs" / "minilm"
AFTER_CALIBRATION = "post-training"

Cell = dict[str, Any]


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
        if isinstance(problem, pdqat.Lagrangian) and (bits, seed) == (BITS, 0):
            result["road"] = go_on(problem, data, steps // 2, folder)
            _write(file, found)
    return found


def _write(file: Path, found: list[Cell]) -> None:
    write_atomically(file, json.dumps({"protocol": __doc__, "cells": found}, indent=1).encode() + b"\n")


def table(found: list[Cell]) -> str:
    """A row for each way at the most steps that there are: the mean over seeds, and half of their range."""
    steps = max(it["steps"] for it in found)
    lines = ["| precision | method | steps | seeds | cosine | a tenth is below | ranking | people |", "|---" * 8 + "|"]
    for bits in SETTINGS:
        for method in (AFTER_CALIBRATION, *METHODS):
            of_method = [it for it in found if (it["bits"], it["method"]) == (bits, method)]
            rows = [it for it in of_method if it["steps"] in (0, steps)]
            if rows:
                columns = [_spread([it["low"][name] for it in rows]) for name in Likeness.__annotations__]
                about = f"| {bits.upper()} | {method} | {rows[0]['steps']} | {len(rows)} "
                lines.append(f"{about}| {' | '.join(columns)} |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    half = (max(values) - min(values)) / 2
    return f"{statistics.mean(values):.3f}" + (f" ± {half:.3f}" if len(values) > 1 else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--file", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="compute nothing")
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    if not given.table:
        compare(given.file, given.steps, given.seeds, Data.of(Embedder()), FOLDER)
    print(table(json.loads(given.file.read_text())["cells"]))
