"""What finished cells found: one entry a cell, the numbers behind every table and figure."""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdqat.errors import InputError
from pdqat.paper.cells import MEASURED, Cell
from pdqat.paper.protocols import Protocol

Entry = dict[str, Any]


def entries(cells: Iterable[Cell], protocol: Protocol, folder: Path) -> list[Entry]:
    """Of the cells that are finished; raises InputError if one was trained under another protocol."""
    finished = [cell for cell in cells if cell.is_finished(folder)]
    for cell in finished:
        cell.check(protocol, folder)
    return [_entry(cell, folder) for cell in finished]


def _entry(cell: Cell, folder: Path) -> Entry:
    run = cell.run(folder)
    summary, metrics = run.summary(), run.metrics()
    try:
        measured = json.loads((run.path / MEASURED).read_text())
        low = next((view for view in summary["accuracy"] if view != "full"), None)
        return {
            "cell": cell.name,
            "bits": cell.bits,
            "method": cell.method.value,
            "tolerance": cell.tolerance,
            "seed": cell.seed,
            "variant": cell.variant,
            "epochs": summary["epochs"],
            "chosen_epoch": summary["chosen_epoch"],
            "test_accuracy_full": _accuracy(summary["accuracy"], "full", "test"),
            "test_accuracy_low": _accuracy(summary["accuracy"], low, "test"),
            "validation_accuracy_full": _accuracy(summary["accuracy"], "full", "validation"),
            "validation_accuracy_low": _accuracy(summary["accuracy"], low, "validation"),
            "train_accuracy_low": None if low is None else measured["train_accuracy"][low],
            "seconds": summary["seconds"],
            "constraints_met": sum(each["satisfied"] for each in summary["constraints"]),
            "constraints": len(summary["constraints"]),
            "layer_distances": measured["layer_distances"],
            "multipliers": {
                each["where"] or each["kind"]: [epoch["constraints"][index]["multiplier"] for epoch in metrics]
                for index, each in enumerate(summary["constraints"])
            },
            "slacks": {
                each["where"] or each["kind"]: [epoch["constraints"][index]["slack"] for epoch in metrics]
                for index, each in enumerate(summary["constraints"])
            },
            "kept": None if cell.kept is None else cell.kept.multipliers(folder),
            "kept_largest": None if cell.kept is None else cell.kept.largest,
        }
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"the cell {run.path} is damaged ({error!r}); remove the folder and run the suite") from error


def _accuracy(found: dict[str, dict[str, float]], view: str | None, part: str) -> float | None:
    return found[view][part] if view in found else None


@dataclass(frozen=True)
class Mean:
    """Mean and standard deviation over seeds, in per cent."""

    values: tuple[float, ...]

    def __str__(self) -> str:
        if not self.values:
            return "-"
        spread = f" ± {statistics.stdev(self.values):.2f}" if len(self.values) > 1 else ""
        return f"{statistics.mean(self.values):.2f}{spread} (n = {len(self.values)})"


def percent(found: Sequence[Entry], key: str, where: Callable[[Entry], bool]) -> Mean:
    """Over the entries that fit."""
    return Mean(tuple(100 * entry[key] for entry in found if where(entry) and entry[key] is not None))
