"""Batch normalisation for the compiler.

Eager torch has one fast kernel for it. The compiler takes that kernel apart, and what it makes of it walks over the
input once more than needed, by a recurrence that no processor can overlap. Both moments can be had from plain sums in
one walk if values are shifted to be near zero first, and the running mean is the shift at hand.
"""

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.layers.distances import precise


def normalize(norm: _BatchNorm, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
    """`norm.forward(input)`, past hooks; in a compiled training step by sums, equal up to rounding."""
    if torch.compiler.is_compiling() and norm.training and norm.running_mean is not None and norm.momentum is not None:
        return _by_sums(norm, input, norm.running_mean, norm.momentum)
    output: Tensor = _BatchNorm.forward(norm, input)
    return output


def _by_sums(norm: _BatchNorm, input: Tensor, shift: Tensor, momentum: float) -> Tensor:  # noqa: A002
    """With d = x - shift: mean(x) = shift + mean(d), var(x) = mean(d^2) - mean(d)^2."""
    shape = [1, -1] + [1] * (input.dim() - 2)
    others = [dim for dim in range(input.dim()) if dim != 1]
    shifted = precise(input) - shift.view(shape)
    mean = shifted.mean(others)
    variance = (shifted.square().mean(others) - mean.square()).clamp_min(0)
    slope = torch.rsqrt(variance + norm.eps)
    if norm.weight is not None:
        slope = slope * norm.weight
    offset = -mean * slope if norm.bias is None else norm.bias - mean * slope
    output = shifted * slope.view(shape) + offset.view(shape)
    with torch.no_grad():
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        count = input.numel() / input.shape[1]
        norm.num_batches_tracked.add_(1)
        norm.running_var.lerp_(variance * (count / (count - 1)), momentum)
        norm.running_mean.add_(mean, alpha=momentum)
    return output.to(input.dtype)
