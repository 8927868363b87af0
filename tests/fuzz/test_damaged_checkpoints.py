"""Checkpoints, as bytes and as structures, damaged at random: each is continued, or refused in one sentence."""

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from counting import BATCHES, counting_problem
from damaged import FEW, MANY, Reader, retyped_or_read
from pdqat.runs.checkpoints import as_checkpoint, load_checkpoint, load_example, load_weights
from pdqat.runs.folder import Run
from pdqat.training.fit import fit
from pdqat.training.settings import Settings
from pdqat.training.store import FolderStore, State
from pdqat.training.trainer import Trainer


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Of own code, after one epoch."""
    fit(counting_problem(), BATCHES, validation=BATCHES, epochs=1, out=tmp_path / "run", progress=False)
    return Run.open(tmp_path / "run")


def reader(path: Path, read: Callable[[Path], Any], sample: bytes) -> Reader:
    def of_bytes(content: bytes) -> None:
        path.write_bytes(content)
        read(path)

    return Reader(of_bytes, [sample])


def saved(content: Any, **how: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, **how)
    return buffer.getvalue()


def damage_the_bytes(run: Run, examples: int) -> None:
    weights = {"a.weight": torch.ones(3, 2), "a.bias": torch.zeros(3)}
    reader(run.last, load_checkpoint, run.last.read_bytes()).refuses_or_reads(examples)
    reader(run.example, load_example, run.example.read_bytes()).refuses_or_reads(examples)
    for file, content in (
        ("weights.pt", saved(weights)),
        ("legacy.pt", saved(weights, _use_new_zipfile_serialization=False)),
        ("weights.safetensors", save(weights)),
    ):
        reader(run.path / file, load_weights, content).refuses_or_reads(examples)


def damage_the_structure(run: Run, examples: int) -> None:
    """And go on from it: a step is taken, so that what torch would stumble over is met."""
    checkpoint, problem = load_checkpoint(run.last), counting_problem()

    class Damaged(FolderStore):
        """Without the file, which takes longer to write and read than all else."""

        content: Any = checkpoint

        def last(self) -> State | None:
            return as_checkpoint(self.content, self.run.last)

    store = Damaged(run)

    def go_on(content: dict[str, Any]) -> None:
        store.content = content
        trainer = Trainer(copy.deepcopy(problem), BATCHES, BATCHES, Settings(epochs=2), store=store)
        inputs, target = BATCHES[0]
        trainer._descent.step(inputs, target, 1.0)

    retyped_or_read(go_on, checkpoint, examples)


def test_damaged_bytes_are_refused_in_one_sentence(run: Run) -> None:
    damage_the_bytes(run, FEW)


def test_entries_of_another_kind_are_refused_in_one_sentence(run: Run) -> None:
    damage_the_structure(run, FEW)


@pytest.mark.slow
def test_many_damaged_bytes_are_refused_in_one_sentence(run: Run) -> None:
    damage_the_bytes(run, MANY)


@pytest.mark.slow
def test_many_entries_of_another_kind_are_refused_in_one_sentence(run: Run) -> None:
    damage_the_structure(run, MANY)
