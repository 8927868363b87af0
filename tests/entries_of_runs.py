"""What a run's files hold, written by hand: one epoch's entry, and a summary."""

from typing import Any

BOUND: dict[str, Any] = {
    "name": "2-bit/layer/conv",
    "kind": "layer",
    "where": "conv",
    "view": "2-bit",
    "tolerance": 0.1,
    "distance": 1 / 3,
    "slack": 0.2,
    "multiplier": 0.5,
    "satisfied": False,
}
CHANNELS: dict[str, Any] = {
    **BOUND,
    "name": "2-bit/channel/conv",
    "kind": "channel",
    "distance": [0.1, 0.2],
    "slack": [0.0, 0.1],
    "multiplier": [0, 1.5],
}
SUMMARY: dict[str, Any] = {
    "method": "pdqat-layers",
    "epochs": 2,
    "chosen_epoch": 1,
    "metric": "accuracy",
    "accuracy": {"full": {"validation": 0.1, "test": 1 / 3}, "2-bit": {"validation": 1, "test": 0}},
    "constraints": [BOUND, CHANNELS],
    "plans": {"2-bit": {"conv": "2"}},
    "left_alone": {"head": "last layer"},
    "parameters": 1000,
    "seconds": 1.5,
    "compiled": False,
    "budget": {"limit": "2 bits", "used": "2 bits"},
    "processor": "made by hand",
    "versions": {"pdqat": "0"},
}


def epoch_entry(epoch: int = 1) -> dict[str, Any]:
    """Of metrics.jsonl."""
    scores = {"metric": "accuracy", "accuracy": {"full": 0.1, "2-bit": 1 / 3}}
    return {"epoch": epoch, "lr": 0.01, "objective": 1.0, "loss": 1 / 3, **scores, "constraints": [BOUND, CHANNELS]}
