"""The ways from the pretrained encoder to a low-precision one, at the same steps on the same batches."""

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from sentences import Data, Embedder, Likeness
from torch import Tensor

import pdqat
from pdqat.quantizers import NormalWeight, Scheme, UniformActivation
from pdqat.task import Problem


@dataclass(frozen=True)
class Setting:
    """What goes with a precision."""

    quantizer: str | Scheme
    output: float
    """The tolerance of the embedding: 1 - its mean cosine to full precision."""
    blocks: float
    """The tolerance of every encoder layer: squared error over variance, on the same input."""


SETTINGS = {
    "w2a8": Setting(Scheme(NormalWeight, UniformActivation), output=0.1, blocks=0.2),
    "w4a8": Setting("uniform-channel", output=0.02, blocks=0.02),
}
"""Least-squares scales per channel at 4 bits. At 2 bits those have three levels; these weights have four."""


DUALS = pdqat.Ascent(rate=0.5)


def away(embedding: Tensor, target: Tensor) -> Tensor:
    """The task loss: 1 - cosine to what the model gave before any training."""
    return (1 - F.cosine_similarity(embedding, target, dim=-1)).mean()


def prepared(bits: str, data: Data) -> pdqat.Network:
    """A fresh copy of the pretrained model with quantisers whose scales are set on an example: post-training."""
    return pdqat.prepare(Embedder(), data.example, bits=bits, quantizer=SETTINGS[bits].quantizer).eval()


def constrained(net: pdqat.Network, bits: str) -> pdqat.Lagrangian:
    """Low precision is brought near the target, such that full precision is near it, output and blocks."""
    return pdqat.Lagrangian(net, away, _constraints(net, bits), duals=DUALS)


def constrained_full(net: pdqat.Network, bits: str) -> pdqat.Lagrangian:
    """The paper's objective: full precision stays near the target, such that low precision is near full precision."""
    return pdqat.Lagrangian(net, away, _constraints(net, bits), duals=DUALS, objective="full")


def _constraints(net: pdqat.Network, bits: str) -> list[pdqat.Constraint]:
    setting, model = SETTINGS[bits], net.model
    assert isinstance(model, Embedder)
    return [
        pdqat.OutputConstraint("cosine", tolerance=setting.output),
        pdqat.BlockConstraint(tolerance=setting.blocks, blocks=model.blocks),
    ]


def straight_through(net: pdqat.Network, bits: str) -> pdqat.TaskProblem:  # noqa: ARG001 - a method takes both
    """Low precision itself is brought near the target, by straight-through gradient, without constraints."""
    return pdqat.TaskProblem(net, away)


METHODS: dict[str, Callable[[pdqat.Network, str], Problem]] = {
    "straight-through": straight_through,
    "constrained": constrained,
    "constrained-full": constrained_full,
}


def fine_tune(problem: Problem, data: Data, steps: int, seed: int, lr: float = 2e-4) -> None:
    """So many steps, in four epochs of which the best on validation stays."""
    pdqat.fit(
        problem,
        data.batches(max(1, steps // 4)),
        validation=data.validation,
        epochs=max(1, min(4, steps)),
        lr=lr,
        schedule="one-cycle",
        dual_every=5,
        norm_batches=0,  # there is no batch norm
        seed=seed,
        progress=False,
    )


def likeness(problem: Problem, data: Data) -> dict[str, Likeness]:
    """Of full precision, which may have moved, and of low precision."""
    net = problem.net
    found = {"full": Likeness.of(net, data)}
    with net.under(net.only_plan("measure it")):
        found["low"] = Likeness.of(net, data)
    return found
