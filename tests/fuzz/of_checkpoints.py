"""Readers of checkpoints, examples and weights."""

import io
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from counting import BATCHES, counting_problem
from damaged import Reader
from pdqat.runs.checkpoints import load_checkpoint, load_example, load_weights
from pdqat.runs.folder import Run
from pdqat.training.fit import fit

NAMES = ("checkpoint", "example", "weights", "weights in torch's older form", "weights in safetensors")


def trained(folder: Path) -> Run:
    """A run of own code, after one epoch."""
    fit(counting_problem(), BATCHES, validation=BATCHES, epochs=1, out=folder / "trained", progress=False)
    return Run.open(folder / "trained")


def readers(folder: Path) -> dict[str, Reader]:
    """Of files beside a run."""
    run, weights = trained(folder), {"a.weight": torch.ones(3, 2), "a.bias": torch.zeros(3)}
    return {
        "checkpoint": Reader.of_file(folder / "last.pt", load_checkpoint, run.last.read_bytes()),
        "example": Reader.of_file(folder / "example.pt", load_example, run.example.read_bytes()),
        "weights": Reader.of_file(folder / "weights.pt", load_weights, _saved(weights)),
        "weights in torch's older form": Reader.of_file(
            folder / "older.pt", load_weights, _saved(weights, _use_new_zipfile_serialization=False)
        ),
        "weights in safetensors": Reader.of_file(folder / "weights.safetensors", load_weights, save(weights)),
    }


def _saved(content: Any, **how: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, **how)
    return buffer.getvalue()
