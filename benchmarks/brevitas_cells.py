"""The column `brevitas` of the suite `tiny`: Brevitas' default quantisation-aware training of the same network.

    python benchmarks/brevitas_cells.py --bits 2 --seed 0 --threads 1
    pdqat paper show tiny

Trains what the recipe `ste-warm` trains, in the same way: the same initial weights, split, batches and augmentation,
the same part of the epochs in float first, one cycle of the learning rate, Adam carried over, statistics of norms
estimated anew before each validation, the best epoch of low precision chosen by it. Stop it at any time: the same
command continues after the last whole epoch. The result is `entry.json` in the cell's folder, which `show` reads.

Trained eagerly in float32: a part of Brevitas' code can't be compiled. Needs Brevitas:
pip install -c constraints.txt -e '.[benchmark]'
"""

import argparse
import json
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from peer_training import Quantize, Training, accuracy

from pdqat.batches import limited
from pdqat.config.loaders import Loaders, loaders_of
from pdqat.config.train_config import TrainConfig
from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.experiments.protocol import Protocol
from pdqat.experiments.results import ENTRY, Entry
from pdqat.experiments.train_cell import TRAIN_IMAGES
from pdqat.flags.arguments import count
from pdqat.paper.protocols import PROTOCOLS, own_protocol
from pdqat.paper.suites.tiny import BREVITAS, RECIPES, SUITE
from pdqat.process import keep_freed_memory, processor
from pdqat.runs.folder import Run


def config_of_cell(protocol: Protocol, folder: Path, bits: int, seed: int) -> TrainConfig:
    """What the recipe `ste-warm` trains: all but the quantisers."""
    return RECIPES["ste-warm"](bits, seed).config(protocol, folder)


def train_cell(
    folder: Path, protocol: Protocol, bits: int, seed: int, quantize: Quantize, say: Callable[[str], None] = print
) -> Entry:
    """Train what is left of a cell and write its entry; returns the entry of one that is finished as it is."""
    run = Run(folder / "cells" / f"{SUITE}-{BREVITAS}-{bits}bit-seed{seed}")
    run.path.mkdir(parents=True, exist_ok=True)
    with run.locked():
        file = run.path / ENTRY
        if not file.exists():
            config = config_of_cell(protocol, folder, bits, seed)
            loaders = loaders_of(config)
            training = Training(run, config, loaders, quantize)
            training.train(say)
            entry = entry_of(run, protocol, config, loaders, training)
            write_atomically(file, (json.dumps(entry, indent=1) + "\n").encode())
        finished: Entry = json.loads(file.read_text(encoding="utf-8"))
        return finished


def entry_of(run: Run, protocol: Protocol, config: TrainConfig, loaders: Loaders, training: Training) -> Entry:
    """What came of it, under the names that entries of other cells have."""
    assert loaders.test is not None
    return {
        "cell": run.path.name,
        "protocol": protocol.name,
        "bits": int(config.bits[0]),
        "method": BREVITAS,
        "recipe": BREVITAS,
        "seed": config.seed,
        "width": config.width,
        "train_images": config.train_images,
        "epochs": training.epoch,
        "chosen_epoch": training.best["epoch"],
        "test_accuracy_full": None,
        "test_accuracy_low": accuracy(training.model, loaders.test),
        "validation_accuracy_full": None,
        "validation_accuracy_low": accuracy(training.model, loaders.validation),
        "train_accuracy_low": accuracy(training.model, list(limited(loaders.plain_training, TRAIN_IMAGES))),
        "seconds": round(training.seconds, 3),
        "processor": processor(),
        "amp": False,
        "versions": {"torch": torch.__version__, "brevitas": _version()},
    }


def _version() -> str | None:
    try:
        return version("brevitas")
    except PackageNotFoundError:
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, choices=(8, 4, 2, 1), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=count, default=1)
    parser.add_argument("--protocol", choices=tuple(PROTOCOLS), default=own_protocol(SUITE).name)
    parser.add_argument("--folder", type=Path, help="default: results/paper, results/paper-NAME under another protocol")
    options = parser.parse_args()
    try:
        import brevitas  # noqa: F401
        from brevitas_network import quantized
    except ImportError:
        print("Brevitas is not installed: pip install -c constraints.txt -e '.[benchmark]'", file=sys.stderr)
        return 2
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    own = options.protocol == own_protocol(SUITE).name
    folder = options.folder or Path("results") / ("paper" if own else f"paper-{options.protocol}")
    try:
        entry = train_cell(folder, PROTOCOLS[options.protocol], options.bits, options.seed, quantized)
    except InputError as error:
        print(f"brevitas_cells: {error}", file=sys.stderr)
        return 2
    print(f"{entry['cell']}: {100 * entry['test_accuracy_low']:.2f} % of the test images")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
