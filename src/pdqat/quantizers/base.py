"""What every quantiser can do, and the grid it puts values on."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Grid:
    """Whole numbers, scale and offset of a quantised tensor: value = integer x scale + offset."""

    integers: Tensor
    scale: Tensor
    offset: Tensor

    def values(self) -> Tensor:
        """The quantised tensor, with the very operations that training uses."""
        return self.integers.to(self.scale.dtype) * self.scale + self.offset


class Quantizer(nn.Module, ABC):
    """Maps a tensor to one that `bits` bits can hold.

    A quantiser belongs to one tensor of one layer under one plan, so it may keep state (a running scale, a learned
    step). `grid` and `surrogate` never change that state; `calibrate`, called once with example data, and `observe`,
    called in every training forward, do.
    """

    @abstractmethod
    def full(self, tensor: Tensor) -> Tensor:
        """The limit of `quantize` for many bits: what the full-precision network uses. Differentiable, stateless."""

    @abstractmethod
    def grid(self, tensor: Tensor, bits: int) -> Grid:
        """The quantised tensor as whole numbers (in floating point), scale and offset."""

    @abstractmethod
    def surrogate(self, tensor: Tensor, bits: int) -> Tensor:
        """The differentiable function whose gradient straight-through estimation puts in place of rounding's."""

    def surrogate_of(self, grid: Grid, tensor: Tensor, bits: int) -> Tensor:
        """`surrogate` of a tensor whose grid is known: a quantiser that searches its scale need not do so again."""
        return self.surrogate(tensor, bits)

    def calibrate(self, tensor: Tensor, bits: int) -> None:
        """Set the state from an example."""

    def observe(self, tensor: Tensor, bits: int, shared: bool = False) -> None:
        """Move the state with a training tensor, without waiting for the device.

        With `shared`, the tensor is this process's share of one that all processes have now, and the state moves by
        all of it, with what `pdqat.distributed` offers: in every process alike.

        By assigning new tensors: a backward pass may read the old ones again, and would find them moved.
        """

    @final
    def quantize(self, tensor: Tensor, bits: int) -> Tensor:
        """The quantised tensor. Rounding has gradient zero, so no gradient reaches `tensor` through it."""
        return self.grid(tensor, bits).values()

    @final
    def codes(self, tensor: Tensor, bits: int) -> Grid:
        """The integers that a deployed model stores; their `values()` equal `quantize` bit for bit."""
        with torch.no_grad():
            grid = self.grid(tensor, bits)
        return Grid(grid.integers.to(torch.int32), grid.scale, grid.offset)

    @final
    def straight_through(self, tensor: Tensor, bits: int) -> Tensor:
        """The value of `quantize` with the gradient of `surrogate`."""
        with torch.no_grad():
            grid = self.grid(tensor, bits)
            quantized = grid.values()
        surrogate = self.surrogate_of(grid, tensor, bits)
        result: Tensor = _ValueWithGradientOf.apply(quantized, surrogate)  # type: ignore[no-untyped-call]
        return result


class _ValueWithGradientOf(torch.autograd.Function):
    """forward(value, other) = value, with the gradient of `other`; exact where value + (other - other) is not."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, other: Tensor) -> Tensor:  # noqa: ARG004
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:  # noqa: ARG004
        return None, gradients[0]
