"""What the CIFAR ResNets of this package have in common: depth and width rules, stages, shortcut, initialisation.

The blocks, where the two families differ, stand in full in `preresnet` and `resnet`.
"""

from collections.abc import Callable
from typing import final

from torch import Tensor, nn

from pdqat.errors import InputError

StageWidths = tuple[int, int, int]
"""Channels of the three stages."""


def blocks_per_stage(depth: int) -> int:
    """The n of depth = 6n + 2: three stages of n blocks of two convolutions, plus stem and head."""
    if depth < 8 or depth % 6 != 2:
        raise InputError(
            f"ResNet depth {depth} can't be built: the depth must be 6n + 2 with n >= 1, such as 20, 32, 56."
        )
    return (depth - 2) // 6


def stage_widths(first: int, width: int) -> StageWidths:
    """Channels of the stages: `first`, doubled from stage to stage, all times the factor `width`."""
    if width < 1:
        raise InputError(f"model width {width} can't be used: it multiplies the channels and must be at least 1.")
    return first * width, 2 * first * width, 4 * first * width


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the image size up to its stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)


def stages(block: Callable[[int, int, int], nn.Module], blocks: int, widths: StageWidths) -> nn.Sequential:
    """Three stages of `blocks` blocks made by `block(inputs, outputs, stride)`; the last two start with stride 2."""
    inputs = widths[0]
    result = nn.Sequential()
    for outputs, stride in zip(widths, (1, 2, 2), strict=True):
        rest = (block(outputs, outputs, 1) for _ in range(blocks - 1))
        result.append(nn.Sequential(block(inputs, outputs, stride), *rest))
        inputs = outputs
    return result


@final
class Shortcut(nn.Module):
    """The projection around a block that changes the shape: 1x1 convolution, batch norm."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv = conv(inputs, outputs, 1, stride)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Project `x` to the shape of the block's output."""
        y: Tensor = self.norm(self.conv(x))
        return y


def initialize_(model: nn.Module) -> None:
    """He initialisation of every convolution: normal, variance 2 / fan_out; other layers keep PyTorch's default."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
