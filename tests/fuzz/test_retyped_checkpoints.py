"""Checkpoints with entries of other kinds: each is continued, or refused in one sentence."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from counting import BATCHES, counting_problem
from damaged import FEW, MANY, retyped_or_read
from fuzz.of_checkpoints import trained
from pdqat.errors import InputError
from pdqat.runs.checkpoints import as_checkpoint, load_checkpoint
from pdqat.training.settings import Settings
from pdqat.training.store import FolderStore, State
from pdqat.training.trainer import Trainer


def test_fewer_than_no_steps_are_refused(tmp_path: Path) -> None:
    """Adam would divide by zero."""
    run = trained(tmp_path)
    checkpoint = load_checkpoint(run.last)
    moments = next(iter(checkpoint["optimizer"]["state"].values()))
    moments["step"] = torch.tensor(-1.0)
    torch.save(checkpoint, run.last)
    with pytest.raises(InputError, match=r"last\.pt does not fit the training's optimizer"):
        Trainer(counting_problem(), BATCHES, BATCHES, Settings(epochs=2), store=FolderStore(run))


@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_entries_of_another_kind_are_refused_in_one_sentence(examples: int, tmp_path: Path) -> None:
    """Or gone on from: a step is taken, so that what torch would stumble over is met."""
    run, problem = trained(tmp_path), counting_problem()
    checkpoint = load_checkpoint(run.last)

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
