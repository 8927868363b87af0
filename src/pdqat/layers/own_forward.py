"""Subclasses of torch's layers with a forward of their own that ends in the layer's operation.

Such a forward pads its input, say, and then calls F.conv2d with its weight. When the layer is precision-aware its own
forward runs as ever, and that one call is the precision-aware operation instead. So it must be the only one: a forward
that changes its weight before, or has other layers in it, is left alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pdqat.layers.kinds import LAYERS, PrecisionConv, PrecisionLinear, subclass
from pdqat.layers.layer import PrecisionLayer

OPERATIONS: dict[Callable[..., Tensor], str] = {
    F.linear: "F.linear",
    F.conv1d: "F.conv1d",
    F.conv2d: "F.conv2d",
    F.conv3d: "F.conv3d",
    F.conv_transpose1d: "F.conv_transpose1d",
    F.conv_transpose2d: "F.conv_transpose2d",
    F.conv_transpose3d: "F.conv_transpose3d",
}
"""torch's functions of an input, a weight and a bias."""


@dataclass(frozen=True)
class Operation:
    """One of OPERATIONS with all that it is given beside input, weight and bias."""

    function: Callable[..., Tensor]
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]

    def __call__(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002 - torch's name
        """Compute it."""
        return self.function(input, weight, bias, *self.args, **dict(self.kwargs))


@dataclass(frozen=True)
class Call:
    """A call of one of OPERATIONS that was seen."""

    operation: Operation
    input: Tensor
    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, function: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> "Call":
        """From the arguments of torch's function."""
        named = dict(zip(("input", "weight", "bias"), args, strict=False))
        rest = {key: value for key, value in kwargs.items() if key not in ("input", "weight", "bias")}
        named |= {key: kwargs[key] for key in ("input", "weight", "bias") if key in kwargs}
        operation = Operation(function, tuple(args[3:]), tuple(rest.items()))
        return cls(operation, named["input"], named["weight"], named.get("bias"))

    def is_of(self, layer: nn.Module) -> bool:
        """Whether it is on the layer's weight and bias themselves, not on something computed from them."""
        return self.weight is layer.weight and self.bias is layer.bias


class WatchOperations(TorchFunctionMode):
    """Tells of every call of OPERATIONS, with its result."""

    def __init__(self, watch: Callable[[Call, Tensor], None]) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in OPERATIONS:
            self._watch(Call.of(func, args, kwargs or {}), result)
        return result


class _Redirect(TorchFunctionMode):
    """Lets a layer's own operation be the precision-aware one."""

    def __init__(self, layer: "OwnForward") -> None:
        super().__init__()
        self._layer = layer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is self._layer.operation.function:
            return self._layer.compute(Call.of(func, args, kwargs or {}).input)
        return func(*args, **(kwargs or {}))


class OwnForward(PrecisionLayer):
    """A layer whose forward is its plain class's own."""

    operation: Operation

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The plain class's forward around the layer's operation under the network's current view."""
        with _Redirect(self):
            return self.plain.forward(self, *args, **kwargs)

    def _operate(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        """As the plain class's forward calls it."""
        return self.operation(input, weight, bias)

    def restore_(self) -> None:
        """Make it a plain layer again, in place."""
        del self.operation
        super().restore_()


def own_forward_kind(plain: type[nn.Module]) -> type[PrecisionLayer] | None:
    """The precision-aware class of a subclass of torch's convolutions or Linear; None if it is neither."""
    kind = next((aware for known, aware in LAYERS.items() if issubclass(plain, known)), None)
    if kind is None or not issubclass(kind, PrecisionConv | PrecisionLinear):
        return None
    return subclass(plain, OwnForward, kind)
