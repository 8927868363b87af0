"""Batch normalisation by sums, for the compiler, and of batches that several processes share (see `moments`)."""

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from pdqat.layers.distances import precise
from pdqat.layers.moments import shared_moments, shifted_moments


def normalize(norm: _BatchNorm, input: Tensor, shared: bool = False) -> Tensor:  # noqa: A002 - torch's name
    """`norm.forward(input)`, past hooks; in a compiled training step by sums, equal up to rounding.

    The sums are shifted by the running mean: until it has followed a mean that lies r standard deviations from it, the
    variance is known to about r^2 roundings of float32.

    What is unusual is left to torch: statistics that are frozen or averaged over all batches, one value a channel.

    With `shared`, statistics of a batch are those of all processes' shares of it.
    """
    if shared and (norm.training or norm.running_mean is None):
        return by_all_shares(norm, input)
    by_sums = (
        torch.compiler.is_compiling()
        and norm.training
        and norm.track_running_stats
        and norm.momentum is not None
        and input.numel() > input.shape[1]
    )
    if by_sums:
        return _by_sums(norm, input)
    output: Tensor = _BatchNorm.forward(norm, input)
    return output


def _by_sums(norm: _BatchNorm, input: Tensor) -> Tensor:  # noqa: A002
    norm._check_input_dim(input)  # type: ignore[no-untyped-call]
    shape = [1, -1] + [1] * (input.dim() - 2)
    others = [dim for dim in range(input.dim()) if dim != 1]
    assert norm.running_mean is not None
    shift = norm.running_mean
    shifted, mean, variance = shifted_moments(precise(input), shift.view(shape), others)
    slope = torch.rsqrt(variance + norm.eps)
    if norm.weight is not None:
        slope = slope * norm.weight
    offset = -mean * slope if norm.bias is None else norm.bias - mean * slope
    output = shifted * slope.view(shape) + offset.view(shape)
    with torch.no_grad():
        count = input.numel() / input.shape[1]
        # New tensors, not lerp_: the backward pass may read the shift again, and would find it moved.
        norm.running_mean = _moved(norm.running_mean, mean + shift, norm.momentum)
        norm.running_var = _moved(norm.running_var, variance * (count / (count - 1)), norm.momentum)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
    return output.to(input.dtype)


def _moved(running: Tensor | None, value: Tensor, momentum: float | None) -> Tensor:
    assert running is not None
    assert momentum is not None
    return torch.lerp(running, value.to(running.dtype), momentum)


def by_all_shares(norm: _BatchNorm, input: Tensor, track: bool = True) -> Tensor:  # noqa: A002
    """`norm.forward(input)` on a process's share of a batch, as one process would normalise all of it; collective.

    Torch's SyncBatchNorm does the same, for GPUs only. Running statistics move unless `track` says no.
    """
    norm._check_input_dim(input)  # type: ignore[no-untyped-call]
    shape = [1, -1] + [1] * (input.dim() - 2)
    real = precise(input)
    count, mean, variance = shared_moments(real, [dim for dim in range(input.dim()) if dim != 1])
    slope = torch.rsqrt(variance + norm.eps)
    if norm.weight is not None:
        slope = slope * norm.weight
    output = (real - mean.view(shape)) * slope.view(shape)
    if norm.bias is not None:
        output = output + norm.bias.view(shape)
    if track and norm.training and norm.running_mean is not None:
        _follow(norm, mean.detach(), (variance * count / (count - 1)).detach())
    return output.to(input.dtype)


@torch.no_grad()
def _follow(norm: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Move running statistics as torch does: by the momentum, or to the plain mean over all batches without one."""
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    momentum = 1 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    norm.running_mean = _moved(norm.running_mean, mean, momentum)
    norm.running_var = _moved(norm.running_var, variance, momentum)
