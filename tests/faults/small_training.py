"""A training of a moment, as own code of the command line: more writing than computing."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

EPOCHS = 3
OWN_CODE = ["--model", "faults.small_training:build", "--data", "faults.small_training:load"]
TRAIN = ["train", *OWN_CODE, "--epochs", str(EPOCHS)]


class Batches:
    """The same two each time."""

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        drawn = torch.Generator().manual_seed(1)
        for _ in range(len(self)):
            yield torch.rand(8, 4, generator=drawn), torch.arange(8) % 2


def load() -> tuple[Batches, Batches, Batches]:
    return Batches(), Batches(), Batches()


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
