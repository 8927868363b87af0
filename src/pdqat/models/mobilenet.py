"""MobileNetV1 of Howard et al. (2017) for small images: depthwise-separable convolutions, a quarter of the width.

As in `preresnet` the non-linearity is clip(x, 0, 1), the range that DoReFa quantises. The stem keeps the image's size,
since images of 32 x 32 pixels are halved by four blocks already.

No branch leads around a clip here, so what 27 of them in a row cut off is lost. Norms start in the middle of the range:
with slope 1 and offset 0 the clips would cut off two thirds of all values, and the network would hardly learn.
"""

from typing import final

from torch import Tensor, nn

from pdqat.models.parts import conv, initialize_, stage_widths
from pdqat.models.preresnet import Clip

_BLOCKS = ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *[(16, 1)] * 5, (32, 2), (32, 1))
"""Channels, in those of the stem, and stride of each block: those of the publication."""
_STEM = 8
_SLOPE, _OFFSET = 0.25, 0.5
"""Of norms at the start: two standard deviations on either side of the mean lie within [0, 1]."""


@final
class Separable(nn.Module):
    """y = clip(norm1(point(clip(norm0(depth(x)))))): a 3x3 convolution of each channel alone, then a 1x1 of all."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(inputs, inputs, 3, stride=stride, padding=1, groups=inputs, bias=False)
        self.norm0 = nn.BatchNorm2d(inputs)
        self.clip0 = Clip()
        self.point = conv(inputs, outputs, 1)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.clip1 = Clip()

    def forward(self, x: Tensor) -> Tensor:
        """The block's equation."""
        y: Tensor = self.clip1(self.norm1(self.point(self.clip0(self.norm0(self.depth(x))))))
        return y


@final
class MobileNet(nn.Module):
    """Stem with batch norm and clip, thirteen separable blocks, global mean, linear head."""

    def __init__(self, stem: int, classes: int = 10, channels: int = 3) -> None:
        super().__init__()
        self.stem = conv(channels, stem, 3)
        self.norm = nn.BatchNorm2d(stem)
        self.clip = Clip()
        self.blocks = nn.Sequential()
        inputs = stem
        for factor, stride in _BLOCKS:
            self.blocks.append(Separable(inputs, factor * stem, stride))
            inputs = factor * stem
        self.head = nn.Linear(inputs, classes)
        initialize_(self)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.constant_(module.weight, _SLOPE)
                nn.init.constant_(module.bias, _OFFSET)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, channels, height, width)."""
        features: Tensor = self.blocks(self.clip(self.norm(self.stem(x))))
        logits: Tensor = self.head(features.mean(dim=(2, 3)))
        return logits


def mobilenet_small(width: int = 1, classes: int = 10, channels: int = 3) -> MobileNet:
    """The network at a quarter of the publication's width, times `width`.

    >>> sum(p.numel() for p in mobilenet_small().parameters())
    215642
    """
    return MobileNet(stage_widths(_STEM, width)[0], classes, channels)
