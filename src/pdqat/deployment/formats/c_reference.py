"""The reference of a C program: the integer reference, with real numbers added up in the order of the C code.

So every code and every score of the C program can be compared bit for bit, real numbers in front of them or not. The
order is: a convolution's sum starts with the bias, then come rows of the window, columns, channels; a mean adds up
rows, then columns, and is divided at the end.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.deployment.formats.c_program import CODE_MAKERS, Program
from pdqat.deployment.formats.c_real import same_reach
from pdqat.deployment.formats.c_rounding import apply_scores
from pdqat.deployment.formats.c_steps import Geometry
from pdqat.deployment.integer.folding import folded_norm
from pdqat.deployment.integer.functions import function_name
from pdqat.deployment.integer.operations import RealProduct


class Ordered(fx.Interpreter):
    """Runs a program's graph; keeps the codes by operation."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.module)
        self._program = program
        self._node: fx.Node | None = None
        self.codes: dict[str, Tensor] = {}

    @torch.no_grad()
    def scores(self, inputs: Tensor) -> np.ndarray:
        """What model_run gives, sample by sample."""
        made = self.run(inputs)
        return np.asarray(made.reshape(len(made), -1).numpy())

    def run_node(self, n: fx.Node) -> Any:
        """Called by torch.fx."""
        self._node = n
        return super().run_node(n)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operation."""
        operation = self.fetch_attr(str(target))
        last = self._program.last_product
        if last is not None and operation is last.operation:
            assert isinstance(operation, RealProduct)
            sums = (operation.accumulate(args[0]).long() // last.weights.divisor).movedim(operation.channel_dim, -1)
            scores = torch.from_numpy(apply_scores(last.rounding, sums.numpy()))
            return scores.movedim(-1, operation.channel_dim)
        if isinstance(operation, _BatchNorm):
            return folded_norm(operation)(*args)
        made = super().call_module(target, args, kwargs)
        if isinstance(operation, CODE_MAKERS):
            self.codes[str(target)] = made
        return made

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function, whose sums have an order."""
        return self._ordered(args, kwargs, lambda: super(Ordered, self).call_function(target, args, kwargs))

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same as a method."""
        return self._ordered(args, kwargs, lambda: super(Ordered, self).call_method(target, args, kwargs))

    def _ordered(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], usual: Any) -> Any:
        assert self._node is not None
        name = function_name(self._node)
        if name in ("conv1d", "conv2d"):
            return convolved(*args, **kwargs)
        if name == "linear":
            x, weight, *bias = (*args, *kwargs.values())
            return convolved(x[:, :, None, None], weight[:, :, None, None], *bias)[:, :, 0, 0]
        made = usual()
        if name in ("mean", "adaptive_avg_pool1d", "adaptive_avg_pool2d"):
            return averaged_parts(args[0] if args else kwargs["input"], made)
        if name in ("avg_pool1d", "avg_pool2d"):
            return averaged_windows(made, *args, **kwargs)
        return made


def convolved(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
) -> Tensor:
    """A convolution, term by term."""
    shape = F.conv1d if weight.dim() == 3 else F.conv2d
    made = shape(x, weight, bias, stride, padding, dilation, groups)
    if isinstance(padding, str):
        padding = [number // 2 if padding == "same" else 0 for number in same_reach(weight, dilation)]
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    geometry = Geometry.of(weight, options)
    image = x if x.dim() == 4 else x[:, :, None]
    kernel = weight if weight.dim() == 4 else weight[:, :, None]
    (pad_y, pad_x), (step_y, step_x) = geometry.padding, geometry.stride
    padded = F.pad(image, (pad_x, pad_x, pad_y, pad_y))
    height, width = made.shape[-2:] if made.dim() == 4 else (1, made.shape[-1])
    inputs = kernel.shape[1]
    first = torch.arange(len(kernel)) // (len(kernel) // geometry.groups) * inputs
    total = torch.zeros(len(x), len(kernel), height, width)
    total = total if bias is None else total + bias.view(-1, 1, 1)
    for row in range(kernel.shape[2]):
        for column in range(kernel.shape[3]):
            top, left = row * geometry.dilation[0], column * geometry.dilation[1]
            seen = padded[:, :, top : top + height * step_y : step_y, left : left + width * step_x : step_x]
            seen = seen[:, :, :height, :width]
            for channel in range(inputs):
                total = total + kernel[:, channel, row, column].view(-1, 1, 1) * seen[:, first + channel]
    return total.view_as(made)


def _sum(x: Tensor, top: int, bottom: int, left: int, right: int) -> Tensor:
    total = torch.zeros(x.shape[:2])
    for row in range(max(top, 0), min(bottom, x.shape[2])):
        for column in range(max(left, 0), min(right, x.shape[3])):
            total = total + x[:, :, row, column]
    return total


def averaged_parts(x: Tensor, like: Tensor) -> Tensor:
    """Means of parts of the image."""
    image = x if x.dim() == 4 else x[:, :, None]
    height, width = like.shape[2:] if like.dim() == 4 else (1, *like.shape[2:]) if like.dim() == 3 else (1, 1)
    made = torch.zeros(*image.shape[:2], height, width)
    for row in range(height):
        for column in range(width):
            top, bottom = row * image.shape[2] // height, -(-(row + 1) * image.shape[2] // height)
            left, right = column * image.shape[3] // width, -(-(column + 1) * image.shape[3] // width)
            made[:, :, row, column] = _sum(image, top, bottom, left, right) / ((bottom - top) * (right - left))
    return made.view_as(like)


def averaged_windows(
    like: Tensor,
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Means of windows."""
    ones = torch.ones(1, 1, *([kernel_size] * (x.dim() - 2) if isinstance(kernel_size, int) else kernel_size))
    stride = kernel_size if stride is None or stride == [] else stride
    geometry = Geometry.of(ones, {"stride": stride, "padding": padding})
    image = x if x.dim() == 4 else x[:, :, None]
    made = torch.zeros(like.shape if like.dim() == 4 else (*like.shape[:2], 1, like.shape[-1]))
    for row in range(made.shape[2]):
        for column in range(made.shape[3]):
            top, left = (
                index * step - pad
                for index, step, pad in zip((row, column), geometry.stride, geometry.padding, strict=True)
            )
            bottom, right = top + geometry.kernel[0], left + geometry.kernel[1]
            count = geometry.kernel[0] * geometry.kernel[1]
            if not count_include_pad:
                count = (min(bottom, image.shape[2]) - max(top, 0)) * (min(right, image.shape[3]) - max(left, 0))
            made[:, :, row, column] = _sum(image, top, bottom, left, right) / count
    return made.view_as(like)
