"""What came of finished cells: one entry a cell, the numbers behind every table and figure."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from pdqat.config.presets import config_of
from pdqat.config.train_config import Method
from pdqat.disk import read_file
from pdqat.errors import InputError
from pdqat.experiments.cells import Cell
from pdqat.experiments.protocol import Protocol
from pdqat.layers import Distance
from pdqat.precision import FULL
from pdqat.runs.exports_file import read_exports
from pdqat.runs.folder import Run
from pdqat.runs.forms import read_json

Entry = dict[str, Any]
ENTRY = "entry.json"
"""What another program than ours writes about a cell that it has trained."""
OUTPUT = "output"
NOT_LAYERS = (OUTPUT, "loss")
"""The names of the output's and the task loss's bounds among the multipliers and slacks of an entry; the others are of
layers."""


class WrittenForm(msgspec.Struct):
    """What is needed of such an entry."""

    cell: str
    protocol: str
    bits: int
    recipe: str
    seed: int
    width: int
    train_images: int | None
    epochs: int
    chosen_epoch: int
    test_accuracy_low: float
    test_accuracy_full: float | None
    seconds: float
    processor: str
    amp: bool


def entries(cells: Iterable[Cell], protocol: Protocol, folder: Path) -> list[Entry]:
    """The entries of the finished cells; raises InputError if one is damaged or was trained under another protocol."""
    return [_entry(cell, protocol, folder) for cell in cells if cell.is_finished(folder)]


def written_entries(suite: str, protocol: Protocol, folder: Path) -> list[Entry]:
    """The entries that other programs have written into folders of a suite's cells, for columns that they train."""
    return [_written(file, protocol) for file in sorted((folder / "cells").glob(f"{suite}-*/{ENTRY}"))]


def _written(file: Path, protocol: Protocol) -> Entry:
    try:
        entry: Entry = read_json(read_file(file), WrittenForm, file)
    except InputError as error:
        raise InputError(f"{error}; remove its folder to train it again") from error
    if entry["protocol"] != protocol.name:
        raise InputError(
            f"{file} was trained under protocol {entry['protocol']!r}, not {protocol.name!r}; give another --folder, "
            "or remove its folder"
        )
    return entry


def _entry(cell: Cell, protocol: Protocol, folder: Path) -> Entry:
    cell.check(protocol, folder)
    run = cell.run(folder)
    if not run.summary_file.is_file():
        raise cell.damaged(folder, "it has no summary.json")
    config = config_of(run)
    try:
        summary, metrics, measured = run.summary(), run.metrics(), run.measured()
    except InputError as error:
        raise cell.damaged(folder, str(error)) from error
    try:
        if len(metrics) != summary["epochs"]:
            raise ValueError(f"metrics.jsonl has {len(metrics)} of {summary['epochs']} epochs")
        low = next((view for view in summary["accuracy"] if view != "full"), None)
        needed = "full" if cell.method is Method.FULL else low
        if needed not in summary["accuracy"]:
            raise ValueError("its summary has no accuracy in low precision")
        names = [bound["where"] or bound["kind"] for bound in summary["constraints"]]
        constrained = [epoch for epoch in metrics if epoch["constraints"] or not config.warm_up]
        entry: Entry = {
            "cell": cell.name,
            "bits": cell.bits,
            "method": cell.method.value,
            "tolerance": cell.tolerance,
            "seed": cell.seed,
            "variant": cell.variant,
            "width": config.width,
            "train_images": config.train_images,
            "epochs": summary["epochs"],
            "chosen_epoch": summary["chosen_epoch"],
            "test_accuracy_full": _accuracy(summary["accuracy"], "full", "test"),
            "test_accuracy_low": _accuracy(summary["accuracy"], low, "test"),
            "validation_accuracy_full": _accuracy(summary["accuracy"], "full", "validation"),
            "validation_accuracy_low": _accuracy(summary["accuracy"], low, "validation"),
            "train_accuracy_low": None if low is None else _number(measured["train_accuracy"][low]),
            "seconds": _number(summary["seconds"]),
            "constraints_met": sum(bound["satisfied"] for bound in summary["constraints"]),
            "constraints": len(summary["constraints"]),
            "layer_distances": _layer_distances(cell, measured["layer_distances"], summary["plans"]),
            "multipliers": _of_epochs(constrained, names, "multiplier"),
            "slacks": _of_epochs(constrained, names, "slack"),
            "kept": None if cell.kept is None else cell.kept.multipliers(folder),
            "kept_largest": None if cell.kept is None else cell.kept.largest,
            "processor": measured.get("processor"),
        }
        if not cell.recipe:
            return entry
        return entry | {"recipe": cell.recipe, "amp": config.amp, "exported": _exported(run)}
    except KeyError as error:
        raise cell.damaged(folder, f"it has no {error}") from error
    except (TypeError, ValueError, IndexError) as error:
        raise cell.damaged(folder, str(error)) from error


def _exported(run: Run) -> dict[str, dict[str, dict[str, float]]]:
    """Of the files that `pdqat export` made of the cell: by file and runtime, the accuracies of file and simulation."""
    return {
        file: {
            result["runtime"]: {name: result[name] for name in ("accuracy", "simulated_accuracy")}
            for result in noted.get("verified", [])
        }
        for file, noted in read_exports(run).items()
    }


def _accuracy(accuracies: dict[str, dict[str, float]], view: str | None, part: str) -> float | None:
    return _number(accuracies[view][part]) if view in accuracies else None


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


def _of_epochs(metrics: list[dict[str, Any]], names: list[str], key: str) -> dict[str, list[float]]:
    """The numbers under the key by constraint, one for every epoch after the warm-up."""
    return {name: [_number(epoch["constraints"][index][key]) for epoch in metrics] for index, name in enumerate(names)}


def _layer_distances(cell: Cell, distances: dict[str, dict[str, float]], plans: dict[str, dict[str, str]]) -> Any:
    """The distances as they are, if every layer in low precision has one of either kind."""
    if cell.method is not Method.FULL:
        low = {layer for plan in plans.values() for layer, precision in plan.items() if precision != str(FULL)}
        for kind in (Distance.SQUARED, Distance.RELATIVE):
            if {layer for layer, distance in distances[kind.value].items() if _number(distance) >= 0} != low:
                raise ValueError(f"measured.json lacks {kind.value} distances of layers")
    return distances
