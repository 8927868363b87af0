"""The pre-activation CIFAR ResNet of the paper's experiments, with clip(x, 0, 1) as its non-linearity.

The activations that enter a block's convolutions lie in [0, 1], the range that DoReFa quantises.
"""

from typing import final

from torch import Tensor, nn

from pdqat.models.parts import Shortcut, StageWidths, blocks_per_stage, conv, initialize_, stage_widths, stages


@final
class Clip(nn.Module):
    """clip(x, 0, 1)."""

    def forward(self, x: Tensor) -> Tensor:
        """Clip `x` to [0, 1]."""
        return x.clamp(0, 1)


@final
class Block(nn.Module):
    """A basic block.

    a = clip(norm0(x))
    y = conv1(clip(norm1(conv0(a)))) + s,    s = shortcut(a) where the shape changes, otherwise x
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm0 = nn.BatchNorm2d(inputs)
        self.clip0 = Clip()
        self.shortcut = Shortcut(inputs, outputs, stride) if stride != 1 or inputs != outputs else None
        self.conv0 = conv(inputs, outputs, 3, stride)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.clip1 = Clip()
        self.conv1 = conv(outputs, outputs, 3)

    def forward(self, x: Tensor) -> Tensor:
        """The block's equation."""
        a = self.clip0(self.norm0(x))
        s = x if self.shortcut is None else self.shortcut(a)
        y: Tensor = self.conv1(self.clip1(self.norm1(self.conv0(a)))) + s
        return y


@final
class PreResNet(nn.Module):
    """Stem, three stages of `blocks` blocks with `widths` channels, batch norm, `last`, global mean, linear head.

    The stem is a 3x3 convolution to `widths[0]` channels; the second and third stage start with stride 2. Convolutions
    have no bias and start from He's normal initialisation (fan_out, ReLU), the head and the norms from PyTorch's own.
    The paper's network has no non-linearity before its mean: what the last convolution computes is then linear in what
    it reads. Of 20 layers that is one; of 8 it is nearly half of the weights.
    """

    def __init__(
        self, blocks: int, widths: StageWidths, classes: int = 10, channels: int = 3, last: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.stem = conv(channels, widths[0], 3)
        self.stages = stages(Block, blocks, widths)
        self.norm = nn.BatchNorm2d(widths[-1])
        self.last = last
        self.head = nn.Linear(widths[-1], classes)
        initialize_(self)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, channels, height, width)."""
        features: Tensor = self.norm(self.stages(self.stem(x)))
        if self.last is not None:
            features = self.last(features)
        logits: Tensor = self.head(features.mean(dim=(2, 3)))
        return logits


def preresnet(depth: int, width: int = 1, classes: int = 10, channels: int = 3) -> PreResNet:
    """The network of 16-32-64 channels times `width` and depth 6n + 2; the paper's is `preresnet(20, width=5)`.

    >>> sum(p.numel() for p in preresnet(20, width=5).parameters())
    6758810
    """
    return PreResNet(blocks_per_stage(depth), stage_widths(16, width), classes, channels)


def preresnet8(width: int = 1, classes: int = 10, channels: int = 3) -> PreResNet:
    """MLPerf Tiny's image classifier in pre-activation form: one block a stage, and a ReLU before the mean, as it has.

    >>> sum(p.numel() for p in preresnet8().parameters())
    78042
    """
    return PreResNet(1, stage_widths(16, width), classes, channels, nn.ReLU())


def preresnet_small(width: int = 1, classes: int = 10, channels: int = 1) -> PreResNet:
    """One block a stage and 8-16-32 channels times `width`: trains on 8x8 digits in seconds.

    >>> sum(p.numel() for p in preresnet_small().parameters())
    19810
    """
    return PreResNet(1, stage_widths(8, width), classes, channels)
