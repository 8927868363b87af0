"""The modes of a model's modules, kept as they are while something else is needed for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, then every module's own again."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def differentiable(model: nn.Module) -> Iterator[None]:
    """Evaluation mode with every parameter part of the graph, and back as it was."""
    needs = {parameter: parameter.requires_grad for parameter in model.parameters()}
    model.requires_grad_(True)
    try:
        with torch.enable_grad(), evaluating(model):
            yield
    finally:
        for parameter, need in needs.items():
            parameter.requires_grad_(need)
