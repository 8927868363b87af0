"""Finished run folders of the command line, written by hand: what a training leaves, without the training."""

from pathlib import Path
from typing import Any

import torch

from configured import build, create
from pdqat.config.train_config import TrainConfig
from pdqat.evaluation import evaluate
from pdqat.lagrangian import Lagrangian
from pdqat.layers.norm import PrecisionNorm
from pdqat.runs.checkpoints import save_checkpoint
from pdqat.runs.folder import Run
from pdqat.training.state import state_of
from pdqat.training.summary import summarize
from small_problems import set_multipliers

EPOCHS = 3
TINY: dict[str, Any] = {"train_images": 32, "batch_size": 16, "validation": 0.03}


def finished_run(path: Path, **options: Any) -> Run:
    """A run with weights, norms and multipliers set by hand; its last epoch was the best.

    Multipliers were a quarter, a half and then all of what they are now.
    """
    config = TrainConfig(**{**TINY, "epochs": EPOCHS, **options})
    built = build(config)
    problem, loaders = built.problem.eval(), built.loaders
    generator = torch.Generator().manual_seed(3)
    for module in problem.net.modules():
        if isinstance(module, PrecisionNorm):
            for view in module.views.values():
                assert isinstance(view.weight, torch.Tensor)
                view.weight.data.copy_(0.5 + torch.rand(view.weight.shape, generator=generator))
    if isinstance(problem, Lagrangian):
        set_multipliers(problem)
    measured = evaluate(problem, loaders.validation)
    run = create(path, config)
    state = {"format": 1, "seconds": 1.0, "best": {"epoch": EPOCHS, "score": 0.5}, **state_of(problem)}
    save_checkpoint(run.best, {**state, "epoch": EPOCHS})
    save_checkpoint(run.last, {**state, "epoch": EPOCHS})
    run.write_metrics(
        [
            {
                "epoch": epoch,
                "lr": 0.01,
                "objective": measured.loss,
                "loss": measured.loss,
                "metric": "accuracy",
                "accuracy": measured.scores,
                "constraints": [
                    {**entry, "multiplier": _times(entry["multiplier"], 2.0 ** (epoch - EPOCHS))}
                    for entry in measured.constraints
                ],
            }
            for epoch in range(1, EPOCHS + 1)
        ]
    )
    about = {"method": config.method.value, "epochs": EPOCHS, "chosen_epoch": EPOCHS, "seconds": 1.0, "compiled": False}
    run.write_summary(summarize(problem, measured.metric, loaders.validation, loaders.test, about))
    return run


def _times(multiplier: Any, factor: float) -> Any:
    return [number * factor for number in multiplier] if isinstance(multiplier, list) else multiplier * factor
