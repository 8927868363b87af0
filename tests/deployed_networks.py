"""Networks to export: as after training, with statistics and affine parameters of all signs."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat import Network
from pdqat.export.freeze import Frozen, freeze


def images(count: int = 8, channels: int = 3) -> Tensor:
    return torch.randn(count, channels, 8, 8, generator=torch.Generator().manual_seed(3))


def trained_like(net: Network, seed: int) -> Network:
    generator = torch.Generator().manual_seed(seed)
    net.train()
    with torch.no_grad():
        for name in (None, *net.plans):
            with net.under(name):
                for _ in range(3):
                    net(torch.randn(32, 3, 8, 8, generator=generator))
        for module in net.modules():
            if isinstance(module, _BatchNorm):
                module.weight.copy_(torch.randn(len(module.weight), generator=generator).abs() * 0.3 + 0.1)
                module.weight[::5] *= -1
                module.weight[1::7] = 0
                module.weight[2::11] *= 1e-6
                module.bias.copy_(torch.rand(len(module.bias), generator=generator))
    return net.eval()


def frozen(net: Network) -> Frozen:
    return freeze(net, next(iter(net.plans.values())))


@torch.no_grad()
def outputs(net: Network, found: Frozen, x: Tensor) -> tuple[Tensor, Tensor]:
    """Of the simulated model and of the integer reference."""
    with net.under(next(iter(net.plans))):
        simulated = net(x)
    return simulated, found.module(x)


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
