"""Gradient checkpointing computes layers again in the backward pass."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pdqat import InputError, Lagrangian, prepare


def test_gradient_checkpointing_is_refused_with_the_way_out() -> None:
    """Nothing tells there under which plan."""

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.block, self.last = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            hidden = checkpoint(self.block, self.first(x), use_reentrant=False)
            y: Tensor = self.last(hidden)
            return y

    x = torch.rand(6, 4)
    lagrangian = Lagrangian(prepare(Checkpointed(), x), F.cross_entropy)
    with pytest.raises(InputError, match=r"block is computed again in the backward pass.* checkpointing off"):
        lagrangian(x, torch.arange(6) % 4).backward()
