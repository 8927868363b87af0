"""What reports are about in tests: a small trained classifier of images whose names are full of HTML."""

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pdqat
from pdqat.reporting.subject import Provenance, Sampled, Subject
from pdqat.training.history import History

SCRIPT = "</script><img src=x onerror=alert(1)>"
LAYER = "<b>bold<"
"""A module's name can't have a dot in it."""
CLASSES = ("<i>circle", "cross & nought", '"square"')
EPOCHS = 4


def batches(samples: int = 48) -> list[tuple[Tensor, Tensor]]:
    """Images in which the class is where the bright part is."""
    generator = torch.Generator().manual_seed(5)
    labels = torch.arange(samples) % len(CLASSES)
    images = 0.3 * torch.rand(samples, 1, 6, 6, generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[0, 2 * label : 2 * label + 2] += 0.6
    return [(images[:32], labels[:32]), (images[32:], labels[32:])]


def problem(bits: str = "2") -> pdqat.Lagrangian:
    torch.manual_seed(3)
    model = nn.Sequential(
        OrderedDict[str, nn.Module](
            stem=nn.Conv2d(1, 4, 3, padding=1),
            norm=nn.BatchNorm2d(4),
            relu=nn.ReLU(),
            **{LAYER: nn.Conv2d(4, 6, 3, padding=1)},
            norm2=nn.BatchNorm2d(6),
            relu2=nn.ReLU(),
            second=nn.Conv2d(6, 4, 3, padding=1),
            norm3=nn.BatchNorm2d(4),
            relu3=nn.ReLU(),
            flat=nn.Flatten(),
            head=nn.Linear(4 * 36, len(CLASSES)),
        )
    )
    return pdqat.Lagrangian(pdqat.prepare(model, batches()[0][0], bits=bits), F.cross_entropy)


def trained(bits: str = "2") -> History:
    images, labels = (torch.cat(parts) for parts in zip(*batches(), strict=True))
    training = list(zip(torch.split(images, 8), torch.split(labels, 8), strict=True))
    return pdqat.fit(problem(bits), training, validation=batches(), epochs=EPOCHS, lr=0.003, progress=False)


def subject(history: History, **changes: Any) -> Subject:
    """With all that a report can show."""
    known = Subject(
        f"run {SCRIPT}",
        history.summary,
        history.epochs,
        known_problem=history.problem,
        validation=Sampled.of(batches()),
        training=Sampled.of(batches()),
        classes=CLASSES,
        about={"model": SCRIPT},
        exports={"model.onnx": EXPORTED},
        frontier=frontier(history),
        provenance=Provenance([f"pdqat train --out '{SCRIPT}'"], f"# {SCRIPT}\nseed = 0"),
        thorough=False,
    )
    return replace(known, **changes)


def frontier(history: History) -> list[dict[str, Any]]:
    """Four plans: the third is best, and the second comes close to it."""
    layers = list(history.problem.net.layers)
    return [
        {
            "average_bits": bits,
            "kilobytes": bits / 10,
            "predicted_cost": 1 / bits,
            "accuracy": score,
            "layers": dict.fromkeys(layers, str(bits)),
        }
        for bits, score in ((1, 0.5), (2, 0.895), (4, 0.9), (8, 0.9))
    ]


EXPORTED: dict[str, Any] = {
    "bytes": 1200,
    "float32_bytes": 4000,
    "sha256": "ab" * 32,
    "verified": [
        {
            "runtime": "onnxruntime",
            "passes": True,
            "images": 48,
            "note": f"no code differs {SCRIPT}",
            "accuracy": 0.9,
            "simulated_accuracy": 0.9,
            "agreement": 1.0,
        }
    ],
    "timed": [
        {
            "runtime": "onnxruntime",
            "threads": 1,
            "batch": 64,
            "integer": {"median": 0.001, "low": 0.001, "high": 0.001, "n": 15},
            "float32": {"median": 0.002, "low": 0.002, "high": 0.002, "n": 15},
            "ratio": {"median": 2.0, "low": 2.0, "high": 2.0, "n": 15},
        }
    ],
}
