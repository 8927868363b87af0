"""How long and how wide a suite is trained. Every suite has a protocol of its own, and any other can be named instead.

Every protocol starts from the preset `paper`, with the straight-through gradient for low-precision norms that the
published numbers were made with.
"""

import dataclasses
from typing import Any

from pdqat.config.words import OWN_PROTOCOLS, USUAL_PROTOCOL
from pdqat.experiments.protocol import Protocol

BUDGET_EPOCHS = 10
BUDGET: dict[str, Any] = {
    "gradient": "norms",
    "width": 1,
    "epochs": BUDGET_EPOCHS,
    "dual_rate": 1 / BUDGET_EPOCHS,
    "dual_slack": "running",
    "layer_sample": 0.25,
    "lr": 1e-2,
    "schedule": "one-cycle",
    "compile": True,
}
"""The rate was chosen on full precision alone, by the suite `schedule`. A dual rate of 1 / epochs moves the multipliers
as far as the paper's 0.01 does in 100 epochs."""
TRIAL: dict[str, Any] = {
    "data": "digits",
    "gradient": "norms",
    "width": 1,
    "train_images": 256,
    "batch_size": 64,
    "epochs": 2,
    "dual_rate": 0.5,
    "dual_slack": "running",
    "lr": 5e-3,
}
TINY_EPOCHS = 30
TINY = BUDGET | {
    "model": "preresnet8",
    "epochs": TINY_EPOCHS,
    "dual_rate": 1 / TINY_EPOCHS,
    "batch_size": 128,
    "norm_batches": 20,
}
SCALE_EPOCHS = 2
SCALE = TINY | {
    "image_size": 16,
    "train_images": 10_000,
    "epochs": SCALE_EPOCHS,
    "dual_rate": 1 / SCALE_EPOCHS,
}
ONE_SEED = ("ingredients",)
"""Suites that look for what is worth more seeds."""
PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("full", {"gradient": "norms"}, 5, "the paper's: width 5, 100 epochs"),
        Protocol("budget", BUDGET, 1, f"for two CPU cores: width 1, {BUDGET_EPOCHS} epochs"),
        Protocol(
            "quick",
            BUDGET | {"train_images": 10_000},
            1,
            "the budget on 10,000 of the images, in a quarter of the time",
        ),
        Protocol("tiny", TINY, 3, f"MLPerf Tiny's ResNet-8, {TINY_EPOCHS} epochs"),
        Protocol("scale", SCALE, 1, f"ResNet-8 on 10,000 images of 16 x 16 pixels, {SCALE_EPOCHS} epochs"),
        Protocol("trial", TRIAL, 1, "two epochs on the digits, to see that everything works"),
    )
}


def own_protocol(suite: str) -> Protocol:
    """What a suite is trained under unless another protocol is named."""
    protocol = PROTOCOLS[OWN_PROTOCOLS.get(suite, USUAL_PROTOCOL)]
    return dataclasses.replace(protocol, seeds=1) if suite in ONE_SEED else protocol
