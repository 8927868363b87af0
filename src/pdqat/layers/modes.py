"""The modes of a model's modules, kept as they are while something else is needed for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


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


class WholeGraph(TorchFunctionMode):
    """Lets autograd see all of a forward, also what it computes under `torch.no_grad` and behind `detach`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for each of its functions."""
        if func is torch._C._set_grad_enabled:
            return None
        if func in (Tensor.detach, torch.detach):
            return args[0].clone()
        return func(*args, **(kwargs or {}))
