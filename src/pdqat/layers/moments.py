"""Mean and variance: from plain sums, in one walk over a tensor, and of a batch that several processes share.

Eager torch has fast kernels for variances and batch norms. The compiler takes them apart, and what it makes of them
walks over the tensor by a recurrence that no processor can overlap. Sums it does well; taken of the distance to a shift
that is within some standard deviations of the mean, they lose nothing to rounding.
"""

import torch
from torch import Tensor

from pdqat.distributed import gathered


def shifted_moments(tensor: Tensor, shift: Tensor, over: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """d = tensor - shift, mean(d), and the variance mean(d^2) - mean(d)^2."""
    shifted = tensor - shift
    mean = shifted.mean(over)
    return shifted, mean, (shifted.square().mean(over) - mean.square()).clamp_min(0)


def shared_moments(tensor: Tensor, over: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Count, mean and variance over the shares of all processes; collective.

        mean = sum_r n_r m_r / n        variance = sum_r n_r (v_r + (m_r - mean)^2) / n

    of the counts, means and variances of the shares: sums of squares alone would lose a small variance to rounding.
    """
    variance, mean = torch.var_mean(tensor, over, correction=0)
    count = torch.full_like(mean, tensor.numel() / mean.numel())
    means, variances, counts = gathered(torch.stack([mean, variance, count])).unbind(1)
    part = counts / counts.sum(0)
    mean = (part * means).sum(0)
    return counts.sum(0), mean, (part * (variances + (means - mean).square())).sum(0)
