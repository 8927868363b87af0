"""The standard CIFAR ResNet of He et al. (2015): post-activation, ReLU, projection shortcuts (their option B).

Published low-bit results on CIFAR-10 are mostly of this network at width 1.
"""

from typing import final

from torch import Tensor, nn

from pdqat.models.parts import Shortcut, StageWidths, blocks_per_stage, conv, initialize_, stage_widths, stages


@final
class Block(nn.Module):
    """A basic block.

    y = relu(norm1(conv1(relu(norm0(conv0(x))))) + s),    s = shortcut(x) where the shape changes, otherwise x
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.shortcut = Shortcut(inputs, outputs, stride) if stride != 1 or inputs != outputs else None
        self.conv0 = conv(inputs, outputs, 3, stride)
        self.norm0 = nn.BatchNorm2d(outputs)
        self.relu0 = nn.ReLU()
        self.conv1 = conv(outputs, outputs, 3)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """The block's equation."""
        s = x if self.shortcut is None else self.shortcut(x)
        y: Tensor = self.relu1(self.norm1(self.conv1(self.relu0(self.norm0(self.conv0(x))))) + s)
        return y


@final
class ResNet(nn.Module):
    """Stem with batch norm and ReLU, three stages of `blocks` blocks with `widths` channels, global mean, linear head.

    The stem is a 3x3 convolution to `widths[0]` channels; the second and third stage start with stride 2. Convolutions
    have no bias and start from He's normal initialisation (fan_out, ReLU), the head and the norms from PyTorch's own.
    """

    def __init__(self, blocks: int, widths: StageWidths, classes: int = 10, channels: int = 3) -> None:
        super().__init__()
        self.stem = conv(channels, widths[0], 3)
        self.norm = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU()
        self.stages = stages(Block, blocks, widths)
        self.head = nn.Linear(widths[-1], classes)
        initialize_(self)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, channels, height, width)."""
        features: Tensor = self.stages(self.relu(self.norm(self.stem(x))))
        logits: Tensor = self.head(features.mean(dim=(2, 3)))
        return logits


def resnet(depth: int, width: int = 1, classes: int = 10, channels: int = 3) -> ResNet:
    """The network of 16-32-64 channels times `width` and depth 6n + 2.

    >>> sum(p.numel() for p in resnet(20).parameters())
    272474
    """
    return ResNet(blocks_per_stage(depth), stage_widths(16, width), classes, channels)
