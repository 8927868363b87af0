"""The Trainer of Hugging Face on a Lagrangian takes the steps that an own loop takes."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

pytest.importorskip("accelerate", reason="the extra transformers is not installed")

from transformers import Trainer, TrainingArguments

from pdqat.errors import InputError
from pdqat.integrations.transformers import PrimalDualMixin
from pdqat.lagrangian import Lagrangian
from pdqat.layers import prepare
from same_run import differences
from small_problems import Perceptron, drawn, labels

X, Y = drawn(48, 6), labels(48)


class Samples(Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"input": X[index], "labels": Y[index], "comment": torch.zeros(1)}


class OwnTrainer(PrimalDualMixin, Trainer):  # type: ignore[misc]
    """As users write it; it also notes what it has trained on."""

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if not return_outputs:
            assert set(inputs) == {"input", "labels"}
            self.seen = [*getattr(self, "seen", []), (inputs["input"], inputs["labels"])]
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)


def problem() -> Lagrangian:
    torch.manual_seed(0)
    return Lagrangian(prepare(Perceptron(), {"input": X[:16]}, bits=2, quantizer="dorefa"), F.cross_entropy)


def arguments(folder: Path, **how: Any) -> TrainingArguments:
    steady = {"learning_rate": 0.01, "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "optim": "adamw_torch"}
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "logging_strategy": "epoch"}
    usual = {"num_train_epochs": 3, "per_device_train_batch_size": 16, "save_strategy": "no", **steady, **quiet}
    return TrainingArguments(str(folder), **{**usual, **how})


@pytest.mark.parametrize("every", [0, 2])
def test_multipliers_and_weights_are_those_of_an_own_loop(tmp_path: Path, every: int) -> None:
    own, theirs = problem(), problem()
    trainer = OwnTrainer(theirs, arguments(tmp_path), train_dataset=Samples(), dual_every=every, norm_batches=0)
    trainer.train()
    optimizer = torch.optim.AdamW(own.net.parameters(), 0.01, weight_decay=0.0)
    own.train()
    for step, (inputs, target) in enumerate(trainer.seen, start=1):
        optimizer.zero_grad()
        own({"input": inputs}, target).backward()
        optimizer.step()
        if step % (every or 3) == 0:
            own.dual_step()
    assert len(trainer.seen) == 9
    for name, tensor in theirs.state_dict().items():
        if isinstance(tensor, Tensor):
            torch.testing.assert_close(tensor, own.state_dict()[name], rtol=1e-6, atol=1e-6, msg=name)
    logged = [entry for entry in trainer.state.log_history if "loss" in entry][-1]
    for name, multiplier in own.duals.named().items():
        assert logged[f"multiplier/{name}"] == pytest.approx(float(multiplier), abs=1e-6)


def test_metrics_see_the_outputs_of_every_view(tmp_path: Path) -> None:
    shapes: list[tuple[int, ...]] = []

    def metrics(prediction: Any) -> dict[str, float]:
        shapes.extend(output.shape for output in prediction.predictions)
        return {}

    made = problem()
    trainer = OwnTrainer(made, arguments(tmp_path), eval_dataset=Samples(), compute_metrics=metrics)
    measured = trainer.evaluate()
    assert shapes == [(48, 3), (48, 3)]
    with torch.no_grad():
        assert measured["eval_loss"] == pytest.approx(float(made.eval().terms({"input": X}, Y).loss), abs=1e-5)


def test_a_training_that_goes_on_from_a_checkpoint_ends_like_one_that_was_not_stopped(tmp_path: Path) -> None:
    straight, again = problem(), problem()
    how = {"save_strategy": "epoch", "eval_strategy": "epoch"}
    OwnTrainer(straight, arguments(tmp_path, **how), train_dataset=Samples(), eval_dataset=Samples()).train()
    trainer = OwnTrainer(again, arguments(tmp_path, **how), train_dataset=Samples(), eval_dataset=Samples())
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    assert len(trainer.seen) == 3
    assert differences(again.duals.state_dict(), straight.duals.state_dict()) == []


def test_a_model_without_a_lagrangian_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^Perceptron must hold one pdqat\.Lagrangian, but it holds 0$"):
        OwnTrainer(Perceptron(), arguments(tmp_path), train_dataset=Samples())
