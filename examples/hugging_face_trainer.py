"""A transformer in the Trainer of Hugging Face, trained under precision constraints.

    python examples/hugging_face_trainer.py

The model is a small ViT with weights of its own, so that nothing is downloaded; a pretrained one goes the same way. The
data are the handwritten digits that come with scikit-learn. Needs `pip install 'pdqat[data,transformers]'`; takes about
half a minute on one core.
"""

import tempfile
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

import pdqat
from pdqat.integrations.transformers import PrimalDualMixin


class PrimalDualTrainer(PrimalDualMixin, Trainer):  # type: ignore[misc]
    """The Trainer on a Lagrangian."""


class Digits(Dataset[dict[str, Tensor]]):
    """Batches of Hugging Face's form: what the model reads by name, and labels."""

    def __init__(self, first: int, last: int) -> None:
        raw = load_digits()
        self.images = torch.tensor(raw.images[first:last], dtype=torch.float32).unsqueeze(1) / 8 - 1
        self.labels = torch.tensor(raw.target[first:last], dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"pixel_values": self.images[index], "labels": self.labels[index]}


def accuracies(prediction: Any) -> dict[str, float]:
    """Of every view: the predictions are a tuple, full precision first."""
    views = ("full", "4-bit")
    hits = [(output.argmax(1) == prediction.label_ids).mean() for output in prediction.predictions]
    return {f"accuracy/{view}": float(hit) for view, hit in zip(views, hits, strict=True)}


def main(epochs: int = 5) -> None:
    torch.manual_seed(0)
    training, validation = Digits(0, 1400), Digits(1400, 1797)
    shape = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
    model = ViTForImageClassification(ViTConfig(image_size=8, patch_size=2, num_channels=1, num_labels=10, **shape))

    example = {"pixel_values": validation.images[:32]}
    net = pdqat.prepare(model, example, bits=4, output="logits")
    problem = pdqat.Lagrangian(net, F.cross_entropy)
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"per_device_train_batch_size": 64, "per_device_eval_batch_size": 200}
        steps = {"num_train_epochs": epochs, "learning_rate": 2e-3, **sizes}
        when = {"eval_strategy": "epoch", "logging_strategy": "epoch", "save_strategy": "epoch", "report_to": "none"}
        trainer = PrimalDualTrainer(
            problem,
            TrainingArguments(folder, **steps, **when),
            train_dataset=training,
            eval_dataset=validation,
            compute_metrics=accuracies,
        )
        trainer.train()
    batches = [({"pixel_values": validation.images}, validation.labels)]
    print(pdqat.evaluate(problem, batches))  # from here on as with any other problem
    print(pdqat.rank(problem, batches))


if __name__ == "__main__":
    main()
