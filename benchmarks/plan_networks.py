"""The networks of `plans`: trained at 2 bits by the default recipe, each a problem with batches.

Beside the built-in models on CIFAR-10 stands a small encoder that reads a handwritten digit row by row, each row a
token: a model of a user's own, on data that scikit-learn brings along.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from cells import train
from torch import Tensor, nn

from pdqat import Lagrangian, fit, load, prepare
from pdqat.batches import limited
from pdqat.config.train_config import TrainConfig
from pdqat.config.trained import Trained
from pdqat.data.digits import digits
from pdqat.layers.norm_statistics import STATISTICS_BATCHES
from pdqat.runs.folder import Run
from pdqat.sensitivity import SAMPLES
from pdqat.task import Problem

FOLDER = Path(__file__).parents[1] / "runs" / "plans"
BITS = 2
IMAGES = 10_000
EPOCHS = 4
"""On CIFAR-10: enough for networks far above chance, which is what plans are told apart on."""
DIGITS_EPOCHS = 40
SHORT = 2000
"""Images of the one short training of a plan."""

Pairs = list[tuple[Any, Any]]


@dataclass(frozen=True)
class Subject:
    """A trained problem, and what it is judged by."""

    problem: Problem
    statistics: Pairs
    """Training batches on which norms are estimated."""
    short: Pairs
    """Training batches of a plan's one short training."""
    judges: Pairs
    truth: Pairs
    lr: float
    training: str


class RowEncoder(nn.Module):
    """Two pre-norm encoder layers over the eight rows of a digit, their mean, and a linear head."""

    def __init__(self, width: int = 32, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.place = nn.Parameter(torch.randn(8, width) * 0.1)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits of digits (batch, 8 rows, 8 pixels)."""
        h = self.embed(rows) + self.place
        for layer in self.layers:
            h = layer(h)
        logits: Tensor = self.head(self.norm(h).mean(1))
        return logits


class EncoderLayer(nn.Module):
    """Attention and a perceptron, each on normed inputs and added to what it read."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm0, self.norm1 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, h: Tensor) -> Tensor:
        """Of (batch, places, width)."""
        a = self.norm0(h)
        q, k, v = (layer(a).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        h = h + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        y: Tensor = h + self.down(F.gelu(self.up(self.norm1(h))))
        return y


def encoder(seed: int) -> Subject:
    """The encoder, trained on four fifths of the digits; a fifth of those are held out."""
    data = digits()
    torch.manual_seed(seed)
    rows, labels = (data.images[:, 0] / 255.0), data.labels
    order = torch.randperm(len(labels))
    rows, labels = rows[order], labels[order]
    held = len(labels) // 5
    training, judges = _batches(rows[held:], labels[held:], 64), _batches(rows[:held], labels[:held], 128)
    truth = _batches(data.test_images[:, 0] / 255.0, data.test_labels, 128)
    out = FOLDER / f"encoder-{seed}"
    if not (out / "summary.json").exists():
        usual = TrainConfig()
        untrained = Lagrangian(
            prepare(RowEncoder(), rows[:64], bits=BITS, quantizer=usual.quantizer),
            F.cross_entropy,
            gradient=usual.gradient,
            objective=usual.objective,
            layer_sample=usual.layer_sample,
            view_sample=usual.view_sample,
        )
        fit(
            untrained,
            training,
            validation=judges,
            epochs=DIGITS_EPOCHS,
            lr=5e-3,
            schedule=usual.schedule,
            out=out,
            resume=out.exists(),
            progress=False,
        )
    problem = load(out, RowEncoder())
    how = f"{DIGITS_EPOCHS} epochs of {len(rows) - held:,} digits"
    return Subject(problem.eval(), training[:STATISTICS_BATCHES], 2 * training, judges, truth, 1e-3, how)


def built_in(model: str, seed: int, truth: int) -> Subject:
    """A model of the package on CIFAR-10. A finished run that is put into its folder serves in place of a training."""
    run = Run(FOLDER / f"{model}-{seed}")
    options = f"--data cifar10 --model {model} --bits {BITS} --train-images {IMAGES} --epochs {EPOCHS} --threads 1"
    train(run, [*options.split(" "), "--seed", str(seed)])
    trained = Trained.open_finished(run.path, purpose="plan for")
    loaders = trained.loaders
    assert loaders.test is not None
    short = list(limited(loaders.training, SHORT))
    return Subject(
        trained.problem,
        list(islice(loaders.training, STATISTICS_BATCHES)),
        short,
        list(limited(loaders.validation, SAMPLES)),
        list(limited(loaders.test, truth)),
        1e-4,  # ten times that undoes what a long training ended on
        f"{trained.config.epochs} epochs of {trained.config.train_images or 'all'} training images",
    )


def _batches(inputs: Tensor, labels: Tensor, size: int) -> Pairs:
    return list(zip(torch.split(inputs, size), torch.split(labels, size), strict=True))


def subject(network: str, seed: int, truth: int) -> Subject:
    """By its name, plans of CIFAR-10's measured on so many test images."""
    return encoder(seed) if network == "encoder" else built_in(network, seed, truth)


NETWORKS: Iterable[str] = ("encoder", "preresnet8", "mobilenet-small")
