"""PrimalDualMixin: the Trainer of Hugging Face on a Lagrangian.

    class PrimalDualTrainer(PrimalDualMixin, Trainer): ...

    trainer = PrimalDualTrainer(problem, TrainingArguments(...), train_dataset=..., eval_dataset=...)

The model that it trains is the Lagrangian, so that accelerate, checkpoints and DistributedDataParallel see one module.
"""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback
from transformers.utils import WEIGHTS_NAME

from pdqat.integrations.between_steps import BetweenSteps

_Base = Trainer if TYPE_CHECKING else object


class PrimalDualMixin(_Base):  # type: ignore[misc,valid-type]
    """Stands before `transformers.Trainer` in the bases of a class; the model to train is a `pdqat.Lagrangian`.

    Predictions are the outputs of all views, full precision first and then every plan, so `compute_metrics` gets a
    tuple of them; `eval_loss` is the task loss. The network's inputs are all of a batch but the labels.

    Args:
        dual_every: steps of the weights between steps of the multipliers; 0 is once an epoch.
        norm_batches: the last so many batches, kept in memory where there are batch norms, give these statistics
            before every evaluation; 0 keeps the running ones.
    """

    label_names: list[str]

    def __init__(self, *args: Any, dual_every: int = 0, norm_batches: int = 20, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._between = BetweenSteps(dual_every, norm_batches)
        self._between.take(self.model)
        self.label_names = self.label_names or ["labels"]
        self.add_callback(_Steps(self._between))

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The Lagrangian in training; in evaluation the task loss, beside the output of every view."""
        labels = [inputs[name] for name in self.label_names]
        read = {name: value for name, value in inputs.items() if name not in self.label_names}
        target = labels[0] if len(labels) == 1 else tuple(labels)
        if return_outputs:
            terms = self._between.problem.terms(read, target)
            return terms.loss, {"loss": terms.loss, **terms.outputs}
        self._between.see(read)
        value: Tensor = model(read, target)
        return value

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Judge low precision by the weights as they are."""
        self._between.estimate_norms()
        measured: dict[str, float] = super().evaluate(*args, **kwargs)
        return measured

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Add slacks and multipliers to what is logged of training."""
        numbers = self._between.numbers if "loss" in logs else {}
        super().log({**logs, **{name: float(number) for name, number in numbers.items()}}, *args, **kwargs)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        """All of the Lagrangian's state as a torch file: safetensors would lose which multiplier is whose."""
        if not self.args.should_save:
            return
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(self.model.state_dict() if state_dict is None else state_dict, folder / WEIGHTS_NAME)
        if self.processing_class is not None:
            self.processing_class.save_pretrained(folder)

    def _set_signature_columns_if_needed(self) -> None:
        """Columns of a data set are for the network's own forward, not for the Lagrangian's."""
        forward = inspect.signature(self._between.problem.net.model.forward)
        self._signature_columns = [*forward.parameters, "label", "label_ids", *self.label_names]


class _Steps(TrainerCallback):  # type: ignore[misc]
    """Moves the multipliers when it is time to."""

    def __init__(self, between: BetweenSteps) -> None:
        self._between = between

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        every = self._between.dual_every
        if every and state.global_step % every == 0:
            self._between.dual_step()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not self._between.dual_every:
            self._between.dual_step()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._between.estimate_norms()
