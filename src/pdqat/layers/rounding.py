"""Rounding: a quantiser at fixed bits as a module of its own, in models that `Network.restore(plan=...)` gives back."""

from typing import Any

from torch import Tensor, nn

from pdqat.layers.distances import precise
from pdqat.quantizers import Quantizer


class Rounding(nn.Module):
    """Rounds activations as they were rounded in training."""

    def __init__(self, quantizer: Quantizer, bits: int) -> None:
        super().__init__()
        self.quantizer = quantizer
        self.bits = bits

    def forward(self, activation: Tensor) -> Tensor:
        """The nearest values that so many bits can hold."""
        return self.quantizer.quantize(precise(activation), self.bits).to(activation.dtype)

    def extra_repr(self) -> str:
        """What print(model) shows of it."""
        return f"{self.bits} bits"


def round_input(module: nn.Module, rounding: Rounding) -> None:
    """Let a plain layer round what it reads, by its child `input_quantizer`."""
    module.add_module("input_quantizer", rounding.train(module.training))
    module.register_forward_pre_hook(_rounded_input, with_kwargs=True)


def round_output(module: nn.Module, rounding: Rounding) -> None:
    """Let a plain layer or norm round what it makes, by its child `sum_quantizer`."""
    module.add_module("sum_quantizer", rounding.train(module.training))
    module.register_forward_hook(_rounded_output, prepend=True)  # the user's hooks see what they saw in training


def _rounded_input(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    if args:
        return (module.input_quantizer(args[0]), *args[1:]), kwargs
    return args, {**kwargs, "input": module.input_quantizer(kwargs["input"])}


def _rounded_output(module: Any, args: tuple[Any, ...], output: Tensor) -> Tensor:  # noqa: ARG001 - torch's names
    rounded: Tensor = module.sum_quantizer(output)
    return rounded
