"""Whether two runs ended with the same numbers, bit for bit, however they were interrupted."""

import signal
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run


def heed_interrupts() -> None:
    """For a process that is about to start: tests that run in the background inherit that interrupts are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def differences(left: Any, right: Any, where: str = "") -> list[str]:
    """Where two checkpoints differ, be it in one bit; how long training took is none of it."""
    if isinstance(left, Mapping):
        if left.keys() != right.keys():
            return [f"keys of {where}"]
        keys = [key for key in left if key != "seconds"]
        return [found for key in keys for found in differences(left[key], right[key], f"{where}/{key}")]
    if isinstance(left, list | tuple):
        pairs = enumerate(zip(left, right, strict=True))
        return [found for index, pair in pairs for found in differences(*pair, f"{where}/{index}")]
    same = torch.equal(left, right) and left.dtype == right.dtype if isinstance(left, Tensor) else left == right
    return [] if same else [where]


def assert_same_run(left: Run, right: Run) -> None:
    assert left.metrics_file.read_bytes() == right.metrics_file.read_bytes()
    for name in ("best.pt", "last.pt"):
        assert differences(load_checkpoint(left.path / name), load_checkpoint(right.path / name)) == []
    assert {**left.summary(), "seconds": 0} == {**right.summary(), "seconds": 0}
