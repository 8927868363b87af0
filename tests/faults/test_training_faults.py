"""A training that anything happened to is continued, and ends with the very numbers of an undisturbed one."""

import errno
import random
import re
from pathlib import Path

import pytest

from faults.forking import Ended, Forks
from faults.injecting import Fault
from faults.outcomes import Span, assert_in_order, faults
from faults.small_training import OWN_CODE, TRAIN
from pdqat.runs.checkpoints import load_checkpoint
from pdqat.runs.folder import Run
from same_run import assert_same_run

FURTHER = 0.4
"""How often one fault is followed by another."""
REPORT = {"report.html", ".report.html.tmp"}
"""May be missing, or half there, of a training that was killed behind its summary: `pdqat report` writes it anew."""


@faults(fast=18, slow=200)
def test_a_fault_costs_at_most_the_epoch_in_progress(
    choice: random.Random, forks: Forks, trained: tuple[Run, Span], tmp_path: Path
) -> None:
    undisturbed, span = trained
    run, kept = Run(tmp_path / "run"), 0
    while True:
        kept = _continued(forks, run, span.drawn(choice), kept)
        if choice.random() > FURTHER:
            break
    if not run.summary_file.exists():
        _continued(forks, run, Fault(), kept)
    assert_same_run(undisturbed, run)
    assert _names(run) ^ _names(undisturbed) <= REPORT


@pytest.mark.slow
def test_every_call_that_touches_the_run_fails_in_turn(forks: Forks, trained: tuple[Run, Span], tmp_path: Path) -> None:
    undisturbed, span = trained
    for moment in range(1, span.moments + 1):
        run = Run(tmp_path / str(moment) / "run")
        run.path.parent.mkdir()
        kept = _continued(forks, run, Fault("failure", errno.ENOSPC, moment), 0)
        if not run.summary_file.exists():
            _continued(forks, run, Fault(), kept)
        assert_same_run(undisturbed, run)


def _continued(forks: Forks, run: Run, fault: Fault, kept: int) -> int:
    """Train on with a fault; returns how many epochs are kept, of which none was lost."""
    assert run.config_file.exists() or not run.path.exists(), "it could neither be continued nor begun"
    if run.summary_file.exists():
        return kept
    begun = run.config_file.exists()
    command = ["train", *OWN_CODE, "--resume"] if begun else [*TRAIN, "--out"]
    ended = forks.run([*command, str(run.path)], run.path.parent, fault)
    print(fault, ended.code)
    assert_in_order(ended)
    assert ended.code == 0 or fault.kind != "none"
    epochs = load_checkpoint(run.last)["epoch"] if run.last.exists() else 0
    assert epochs >= max(kept, _announced(ended))
    assert ended.code != 0 or run.summary_file.exists()
    return int(epochs)


def _announced(ended: Ended) -> int:
    """The last epoch that the command said to be done."""
    return max(map(int, re.findall(r"^epoch (\d+)/", ended.output, re.MULTILINE)), default=0)


def _names(run: Run) -> set[str]:
    return {path.name for path in run.path.iterdir()}
