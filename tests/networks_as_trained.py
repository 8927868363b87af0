"""Networks in a state as after training, built without any: every view has numbers of its own."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat import Network
from pdqat.quantizers import LSQ, UniformActivation

CLASSES = 3


class Signals(nn.Module):
    """Conv1d with and without norm, a residual sum behind ReLU in place, and linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv1d(2, 6, 3, padding=1), nn.BatchNorm1d(6)
        self.conv0, self.norm0 = nn.Conv1d(6, 6, 3, padding=1, bias=False), nn.BatchNorm1d(6)
        self.conv1, self.norm1 = nn.Conv1d(6, 6, 3, padding=1, bias=False), nn.BatchNorm1d(6)
        self.conv2 = nn.Conv1d(6, 4, 1)
        self.relu = nn.ReLU(inplace=True)
        self.hidden, self.head = nn.Linear(4, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.relu(self.norm(self.stem(x)))
        y = self.norm1(self.conv1(self.relu(self.norm0(self.conv0(h)))))
        y += h
        y = self.relu(self.conv2(self.relu(y)))
        result: Tensor = self.head(self.relu(self.hidden(y.mean(2))))
        return result


LAYERS = ["conv0", "conv1", "conv2", "hidden"]


def signals(seed: int = 0, count: int = 16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 2, 12, generator=generator), torch.arange(count) % CLASSES


@torch.no_grad()
def as_trained(net: Network, seed: int = 1) -> Network:
    """Norms of all views apart from each other, quantisers apart from where the example put them."""
    generator = torch.Generator().manual_seed(seed)

    def spread(tensor: Tensor, low: float, high: float) -> None:
        tensor.copy_(torch.rand(tensor.shape, generator=generator) * (high - low) + low)

    for module in net.modules():
        if isinstance(module, _BatchNorm):
            for tensor, low, high in ((module.weight, 0.5, 1.5), (module.bias, -0.3, 0.7)):
                spread(tensor, low, high)
            assert module.running_mean is not None
            assert module.running_var is not None
            assert module.num_batches_tracked is not None
            spread(module.running_mean, -0.5, 0.5)
            spread(module.running_var, 0.5, 2.0)
            module.num_batches_tracked.fill_(int(torch.randint(1, 100, (), generator=generator)))
        if isinstance(module, LSQ):
            module.step.mul_(1 + torch.rand((), generator=generator))
        if isinstance(module, UniformActivation):
            module.scale.mul_(1 + torch.rand((), generator=generator))
    return net


def state_of(module: nn.Module) -> dict[str, Tensor]:
    """A copy of the tensors in a module's state."""
    return {key: value.clone() for key, value in module.state_dict().items() if isinstance(value, Tensor)}
