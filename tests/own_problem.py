"""A problem and loaders as a user has them: a plain module, a data set, a DataLoader."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from pdqat.lagrangian import Lagrangian
from pdqat.layers import prepare
from pdqat.training import fit
from pdqat.training.history import History


def build(width: int = 8) -> nn.Sequential:
    """With a block, batch norms, which have a state, and dropout, which is random."""
    return nn.Sequential(
        *(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()),
        nn.Sequential(nn.Linear(8, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2)),
        *(nn.Linear(width, 8), nn.ReLU()),
        nn.Linear(8, 3),
    )


def _samples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.rand(72, 4, generator=generator)
    return inputs, (3 * inputs.mean(1)).long().clamp(max=2)


X, Y = _samples()
EXAMPLE = X[:16]
DATA = TensorDataset(X[:48], Y[:48])
TRAINING = [(X[start : start + 16], Y[start : start + 16]) for start in (0, 16, 32)]
VALIDATION = [(X[48:], Y[48:])]


def own_problem(
    seed: int = 0, bits: Any = 2, constraints: Any = None, quantizer: Any = "dorefa", **how: Any
) -> Lagrangian:
    """With the same weights for the same seed."""
    torch.manual_seed(seed)
    return Lagrangian(prepare(build(), EXAMPLE, bits, quantizer=quantizer), F.cross_entropy, constraints, **how)


def fitted(problem: Any, batches: Any = TRAINING, **how: Any) -> History:
    """Two epochs unless told otherwise, without a progress bar."""
    return fit(problem, batches, **{"validation": VALIDATION, "epochs": 2, "progress": False, **how})
