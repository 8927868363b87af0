"""What a trained and measured cell leaves behind, without the training."""

import json
from pathlib import Path
from typing import Any

from pdqat.paper.cells import MEASURED
from pdqat.training import Run

MULTIPLIERS = {"stages.0.0.conv0": 0.1, "stages.0.0.conv1": 0.3, "stages.1.0.conv0": 0.2}
EPOCHS = 2


def finish(folder: Path) -> None:
    """Write metrics, summary and measurements into the folder."""
    accuracy = {view: {"validation": 0.5, "test": 0.5} for view in ("full", "2-bit")}
    summary: dict[str, Any] = {
        "epochs": EPOCHS,
        "chosen_epoch": EPOCHS,
        "seconds": 1.0,
        "accuracy": accuracy,
        "constraints": [_constraint(name, value) for name, value in MULTIPLIERS.items()],
        "plans": {"2-bit": dict.fromkeys(MULTIPLIERS, "2")},
    }
    distances = dict.fromkeys(MULTIPLIERS, 0.1)
    measured = {"train_accuracy": {"2-bit": 0.5}, "layer_distances": {"squared": distances, "relative": distances}}
    Run(folder).write_metrics([{"constraints": summary["constraints"]}] * EPOCHS)
    Run(folder).write_summary(summary)
    (folder / MEASURED).write_text(json.dumps(measured))


def _constraint(layer: str, multiplier: float) -> dict[str, Any]:
    numbers = {"tolerance": 0.2, "distance": 0.1, "slack": -0.1, "multiplier": multiplier}
    return {"kind": "layer", "where": layer, "satisfied": True, **numbers}
