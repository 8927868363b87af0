"""Where classes stand in a tensor of scores, told by the labels: [batch, classes, ...] or [batch, ..., classes]."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def class_dims(scores: Sequence[int], target: Any) -> list[int]:
    """The dimensions in which classes can stand, dimension 1 first; none if the target holds no labels of these scores.

    >>> class_dims((8, 10, 4, 4), torch.zeros(8, 4, 4, dtype=torch.long))
    [1]
    >>> class_dims((8, 20, 500), torch.zeros(8, 20, dtype=torch.long))
    [2]
    """
    if not isinstance(target, Tensor) or target.is_floating_point() or target.is_complex():
        return []
    if target.dtype is torch.bool or len(scores) != target.dim() + 1 or len(scores) < 2:
        return []
    ends = dict.fromkeys((1, len(scores) - 1))
    return [dim for dim in ends if tuple(size for at, size in enumerate(scores) if at != dim) == tuple(target.shape)]
