"""A Lightning training of a Lagrangian takes the steps that `fit` takes."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("lightning", reason="the extra lightning is not installed")

import lightning.pytorch as pl

from pdqat import fit
from pdqat.errors import InputError
from pdqat.integrations.lightning import PrimalDual
from pdqat.lagrangian import Lagrangian
from pdqat.layers.norm_statistics import estimate_statistics
from same_run import differences
from small_problems import small

# Lightning uses what torch advises against, and advises to read batches by several processes.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]
EPOCHS = 3


class Module(pl.LightningModule):  # type: ignore[misc]
    """As users write it."""

    def __init__(self, problem: nn.Module) -> None:
        super().__init__()
        self.problem = problem

    def training_step(self, batch: Any, _: int) -> Tensor:
        value: Tensor = self.problem(*batch)
        return value

    def validation_step(self, batch: Any, _: int) -> None:
        assert isinstance(self.problem, Lagrangian)
        self.log("loss", self.problem.terms(*batch).loss)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adam(self.problem.parameters())


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, 0.01)


def trained(module: nn.Module, batches: Any, callback: PrimalDual, start: Path | None = None, **how: Any) -> Any:
    """The trainer that has done it."""
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    options = {"max_epochs": EPOCHS, "enable_checkpointing": False, "accelerator": "cpu", **quiet, **how}
    trainer = pl.Trainer(callbacks=[callback], num_sanity_val_steps=0, **options)
    trainer.fit(Module(module), batches, batches, ckpt_path=start, weights_only=start is not None)
    return trainer


@pytest.mark.parametrize("every", [0, 2])
def test_multipliers_are_those_of_fit_to_the_bit(every: int) -> None:
    ours, theirs = small(), small()
    options: dict[str, Any] = {"optimizer": adam, "dual_every": every, "norm_batches": 0, "progress": False}
    history = fit(ours.problem, ours.batches, validation=ours.batches, epochs=EPOCHS, **options)
    trainer = trained(theirs.problem, theirs.batches, PrimalDual(every, norm_batches=0))
    expected = {bound["name"]: bound["multiplier"] for bound in history.epochs[-1]["constraints"]}
    assert {name: float(value) for name, value in theirs.problem.duals.named().items()} == expected
    assert {name: float(trainer.callback_metrics[f"multiplier/{name}"]) for name in expected} == expected


def test_norms_have_the_statistics_of_the_weights_as_they_are() -> None:
    made = small()
    trained(made.problem, made.batches, PrimalDual(norm_batches=2))
    expected = copy.deepcopy(made.problem)
    estimate_statistics(expected.net, expected.net.plans["2-bit"], made.batches, 2)
    assert differences(made.problem.state_dict(), expected.state_dict()) == []


def test_a_training_that_goes_on_from_a_checkpoint_ends_like_one_that_was_not_stopped(tmp_path: Path) -> None:
    straight, first, again = small(), small(), small()
    trained(straight.problem, straight.batches, PrimalDual(3, norm_batches=2))
    stopped = trained(first.problem, first.batches, PrimalDual(3, norm_batches=2), max_epochs=1)
    stopped.save_checkpoint(tmp_path / "stopped.ckpt")
    trained(again.problem, again.batches, PrimalDual(3, norm_batches=2), start=tmp_path / "stopped.ckpt")
    assert differences(again.problem.state_dict(), straight.problem.state_dict()) == []


def test_sums_of_slacks_stay_each_process_its_own() -> None:
    module = Module(small().problem)
    PrimalDual().setup(pl.Trainer(logger=False, accelerator="cpu"), module, "fit")
    assert module._ddp_params_and_buffers_to_ignore == ["problem.distance_sum", "problem.samples"]


def test_a_module_without_a_lagrangian_is_refused() -> None:
    with pytest.raises(InputError, match=r"^Module must hold one pdqat\.Lagrangian, but it holds 0$"):
        trained(nn.Linear(2, 2), small().batches, PrimalDual())
