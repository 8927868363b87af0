"""Whose task loss should be minimised where a trained model is brought to low precision?

    python benchmarks/own_models.py [--seeds 5]        trains what is missing in results/own_models.json
    python benchmarks/own_models.py --table            prints what is there

The three networks of examples/own_model.py, trained in full precision for 10 epochs on handwritten digits, then brought
to 4, 2 and 1 bits by `prepare`, a problem and `fit`, as the README does it: 5 epochs at 1e-3. 1,200 images train, 200
choose the epoch, 397 are the test. For a seed all ways start from the same weights and see the same batches.

    low         the default: the task loss of low precision, such that full precision stays close
    full        the paper's: the task loss of full precision, such that low precision stays close
    straight    the task loss of low precision, without constraints
    muon        as low, but with orthogonal steps of weights that a batch norm follows
"""

import argparse
import copy
import json
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from measure import RESULTS, machine, write
from rich.table import Table
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import pdqat
from pdqat.flags.arguments import count
from pdqat.task import Problem
from pdqat.terminal import PlainConsole

sys.path.append(str(RESULTS.parent / "examples"))

from own_model import MODELS, digits, pretrain

NAME = "own_models"
BITS = (4, 2, 1)
WAYS: dict[str, Callable[[pdqat.Network], Problem]] = {
    "low": lambda net: pdqat.Lagrangian(net, F.cross_entropy),
    "full": lambda net: pdqat.Lagrangian(net, F.cross_entropy, objective="full"),
    "straight": lambda net: pdqat.TaskProblem(net, F.cross_entropy),
    "muon": lambda net: pdqat.Lagrangian(net, F.cross_entropy),
}

Loader = DataLoader[tuple[Tensor, ...]]
Entry = dict[str, Any]


def loaders() -> tuple[Loader, Loader, Loader]:
    """Of training, validation and test."""
    training, test = digits()
    images, labels = training.dataset[:]
    parts = [TensorDataset(images[part], labels[part]) for part in (slice(1200), slice(1200, None))]
    return DataLoader(parts[0], batch_size=64, shuffle=True, drop_last=True), DataLoader(parts[1], batch_size=200), test


def cells(kind: str, seed: int) -> list[Entry]:
    """Every way at all bits, from one network in full precision."""
    torch.manual_seed(seed)
    training, validation, test = loaders()
    model = MODELS[kind]()
    pretrain(model, training, 10)
    example, _ = next(iter(validation))
    entries = []
    for bits in BITS:
        for way, problem_of in WAYS.items():
            problem = problem_of(pdqat.prepare(copy.deepcopy(model), example, bits=bits))
            torch.manual_seed(seed)
            optimizer = "muon" if way == "muon" else "adam"
            how: dict[str, Any] = {"epochs": 5, "lr": 1e-3, "optimizer": optimizer, "seed": seed, "progress": False}
            pdqat.fit(problem, training, validation=validation, **how)
            scores = pdqat.evaluate(problem, test).scores
            low, full = scores[f"{bits}-bit"], scores.get("full")
            entries.append({"network": kind, "bits": bits, "way": way, "seed": seed, "low": low, "full": full})
    return entries


def show(entries: list[Entry]) -> None:
    """Means over networks and seeds, and what each way is above the paper's, pair by pair."""
    table = Table(title="test accuracy in low precision, %: mean, and difference to full of the same seed (deviation)")
    for heading in ("bits", "way", "mean", "above full", "n"):
        table.add_column(heading)
    by_cell = {(entry["network"], entry["bits"], entry["way"], entry["seed"]): 100 * entry["low"] for entry in entries}
    for bits in BITS:
        for way in WAYS:
            keys = [key for key in by_cell if key[1:3] == (bits, way)]
            gains = [by_cell[key] - by_cell[*key[:2], "full", key[3]] for key in keys]
            spread = f"{statistics.mean(gains):+.2f} ({statistics.stdev(gains):.2f})"
            table.add_row(
                str(bits), way, f"{statistics.mean(by_cell[key] for key in keys):.2f}", spread, str(len(keys))
            )
    PlainConsole(width=100).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=count, default=5)
    parser.add_argument("--table", action="store_true", help="train nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    file = RESULTS / f"{NAME}.json"
    stored: Entry = json.loads(file.read_text()) if file.exists() else {"machine": machine(), "entries": []}
    if stored["machine"]["instructions"] != machine()["instructions"]:
        raise SystemExit(f"{file} is of another kind of processor, which pairs may not mix: move it away first")
    entries: list[Entry] = stored["entries"]
    for seed in range(0 if options.table else options.seeds):
        for kind in MODELS:
            if not any((entry["network"], entry["seed"]) == (kind, seed) for entry in entries):
                entries += cells(kind, seed)
                write(NAME, {"entries": entries})
    show(entries)


if __name__ == "__main__":
    main()
