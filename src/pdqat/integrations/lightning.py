"""PrimalDual: the callback that makes a Lightning training one of a Lagrangian.

The module's training step returns the Lagrangian of a batch, its optimizer holds the network's parameters, and all else
of Lightning stays as it is:

    def training_step(self, batch, _):
        return self.problem(*batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.problem.net.parameters(), 1e-3)
"""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from pdqat.integrations.between_steps import BetweenSteps


class PrimalDual(Callback):  # type: ignore[misc]
    """Moves the multipliers of the one Lagrangian in a LightningModule, and logs them with their slacks.

    An epoch's step comes after its last batch, before validation. Before every validation, and at the end,
    low-precision batch norms get statistics of the weights as they are.

    Args:
        dual_every: batches between steps of the multipliers; 0 is once an epoch.
        norm_batches: the last so many batches, kept in memory where there are batch norms, give these statistics; 0
            keeps the running ones.
    """

    def __init__(self, dual_every: int = 0, norm_batches: int = 20) -> None:
        self._between = BetweenSteps(dual_every, norm_batches)
        self._batches = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Find the Lagrangian, and keep DistributedDataParallel from its sums, which are each process's own.

        Lightning leaves modules in the mode that they are in; slacks are only summed in that of training.
        """
        self._between.take(pl_module)
        problem = self._between.problem
        problem.train(stage == "fit")
        (name,) = [name for name, part in pl_module.named_modules() if part is problem]
        ignored = [f"{name}.{buffer}" for buffer in problem._ddp_params_and_buffers_to_ignore]
        pl_module._ddp_params_and_buffers_to_ignore = ignored

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Step, if it is time to."""
        self._between.see(self.inputs_of(batch))
        self._batches += 1
        every = self._between.dual_every
        if self._batches % every == 0 if every else trainer.is_last_batch:
            self._between.dual_step()
            pl_module.log_dict(self._between.numbers, on_step=bool(every), on_epoch=not every, batch_size=1)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Judge low precision by the weights as they are."""
        self._between.estimate_norms()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leave it as it would be judged."""
        self._between.estimate_norms()

    def state_dict(self) -> dict[str, Any]:
        """What Lightning's checkpoints keep; the multipliers are in the module's own state."""
        return {"batches": self._batches}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._batches = state_dict["batches"]

    def inputs_of(self, batch: Any) -> Any:
        """What the network reads of a batch; override it where batches are no pairs of inputs and target."""
        return batch[0]
