"""Networks to export: as after training, with statistics and affine parameters of all signs, but trained on nothing."""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat import Network, prepare
from pdqat.deployment.deployable import Deployable
from pdqat.deployment.following.follow import follow
from pdqat.deployment.integer.freeze import freeze
from pdqat.deployment.integer.frozen import Frozen
from pdqat.deployment.integer.names import INPUT, OUTPUT
from pdqat.deployment.verify import Opened, Verified, verify
from pdqat.deployment.witness import ReferenceCodes
from pdqat.models.preresnet import PreResNet
from pdqat.models.resnet import ResNet

IMAGE = (3, 8, 8)


def samples(count: int, *shape: int) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(3))


def images(count: int = 8) -> Tensor:
    return samples(count, *IMAGE)


def trained_like(
    net: Network, seed: int, shape: tuple[int, ...] = IMAGE, draw: Callable[..., Tensor] = torch.randn
) -> Network:
    generator = torch.Generator().manual_seed(seed)
    net.train()
    with torch.no_grad():
        for name in (None, *net.plans):
            with net.under(name):
                for _ in range(3):
                    net(draw(32, *shape, generator=generator))
        for module in net.modules():
            if isinstance(module, _BatchNorm):
                module.weight.copy_(torch.randn(len(module.weight), generator=generator).abs() * 0.3 + 0.1)
                module.weight[::5] *= -1
                module.weight[1::7] = 0
                module.weight[2::11] *= 1e-6
                module.bias.copy_(torch.rand(len(module.bias), generator=generator))
    return net.eval()


def small_preresnet() -> PreResNet:
    return PreResNet(1, (8, 8, 16))


def small_resnet() -> ResNet:
    return ResNet(1, (8, 8, 16))


@cache
def residual(bits: str, seed: int = 1) -> Deployable:
    """A small pre-activation network with integer sums; not to be changed."""
    torch.manual_seed(0)
    net = prepare(small_preresnet(), images(), bits, quantizer="dorefa-int8", integer_sums=True)
    return deployable(trained_like(net, seed))


@cache
def standard(bits: str, quantizer: str = "uniform") -> Deployable:
    """A small standard residual network with integer sums; not to be changed."""
    torch.manual_seed(0)
    net = prepare(small_resnet(), images(), bits, quantizer=quantizer, integer_sums=True)
    return deployable(trained_like(net, 1))


def bent_preresnet() -> PreResNet:
    """With a ReLU before its mean, as ResNet-8 has it."""
    return PreResNet(1, (8, 8, 16), last=nn.ReLU())


def own_sequence() -> nn.Sequential:
    """Whose mean keeps its dimensions, which are flattened."""
    first = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU6()]
    return nn.Sequential(*first, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "pre-activation": small_preresnet,
    "standard": small_resnet,
    "ReLU before the mean": bent_preresnet,
    "own": own_sequence,
}


def bytes_of_images(count: int) -> Tensor:
    """Images from 0 to 1, as their bytes say."""
    drawn = torch.randint(256, (count, 3, 8, 8), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)
    return drawn.float() / 255


@cache
def integers_throughout(name: str, bits: str, quantizer: str = "normal-bytes") -> Deployable:
    """A network of integers from the bytes of the image to the scores; not to be changed."""
    torch.manual_seed(0)
    net = prepare(BUILDERS[name](), bytes_of_images(8), bits, ends=8, quantizer=quantizer, integer_sums=True)
    return Deployable.of(trained_like(net, 1, draw=torch.rand), None, bytes_of_images(8))


def deployable(net: Network) -> Deployable:
    return Deployable.of(net, None, images())


def frozen(net: Network) -> Frozen:
    return freeze(follow(net, net.example).module, next(iter(net.plans.values())))


def simulated(net: Network, x: Tensor) -> Tensor:
    with net.under(next(iter(net.plans))), torch.no_grad():
        outputs: Tensor = net(x)
    return outputs


def labelled(net: Network, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """A batch whose targets are the simulated model's own choices."""
    return [(x, simulated(net, x).argmax(1))]


class ReferenceSession:
    """A runtime that computes what the integer reference does."""

    def __init__(self, module: nn.Module) -> None:
        self._module, self.inputs = module, [INPUT]

    @torch.no_grad()
    def run(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        made = self._module(*(torch.from_numpy(array) for array in inputs.values()))
        return {name: tensor.numpy() for name, tensor in (made if isinstance(made, dict) else {OUTPUT: made}).items()}


def verified_reference(model: Deployable, x: Tensor) -> Verified:
    """The integer reference, verified as if it were a file."""
    opened = Opened("reference", ReferenceSession(model.frozen.module), ReferenceCodes(model.frozen))
    return verify(model, [opened], labelled(model.net, x))[0]


class Own(nn.Module):
    """Convolutions of several shapes, pooling, linear layers and a norm of vectors in low precision."""

    def __init__(self, width: int, groups: int, kernel: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding="same")
        self.norm0 = nn.BatchNorm2d(width)
        self.conv0 = nn.Conv2d(width, width, kernel, padding="same" if kernel % 2 else 0, groups=groups)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(2)
        self.hidden0 = nn.Linear(width, 12)
        self.norm3 = nn.BatchNorm1d(12)
        self.relu = nn.ReLU(inplace=True)
        self.hidden1 = nn.Linear(12, 12)
        self.last = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm0(self.first(x)))
        x = self.norm1(self.conv0(x)).clamp(0, 1)
        x = self.pool(self.norm2(self.conv1(x)).clamp(0, 1))
        x = self.relu(self.norm3(self.hidden0(x.mean((2, 3)))))
        x = torch.relu(self.hidden1(x))
        y: Tensor = self.last(x)
        return y
