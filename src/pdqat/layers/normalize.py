"""Batch normalisation by sums, for the compiler, and of batches that several processes share (see `moments`).

    x' = x - shift          m = mean(x')            r = 1 / sqrt(var(x') + eps)
    y  = a x' + c           a = weight r            c = bias - a m
    dx = a dy + u x' + v    u = -a r^2 p / n        v = -a q / n - u m
                            p = sum dy x' - m q     q = sum dy

The compiler left to itself takes the gradient apart step by step, and computes roots and quotients of a channel anew
for every element. Here an element takes two products and two sums, and what a channel needs is computed once.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
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
    shift = norm.running_mean
    assert shift is not None
    output: Tensor
    output, mean, variance = _BySums.apply(input, shift, norm.weight, norm.bias, norm.eps)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        count = input.numel() / input.shape[1]
        # New tensors, not lerp_: the backward pass may read the shift again, and would find it moved.
        norm.running_mean = _moved(shift, mean + shift, norm.momentum)
        norm.running_var = _moved(norm.running_var, variance * (count / (count - 1)), norm.momentum)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
    return output


class _BySums(torch.autograd.Function):
    """The normalised tensor, and the mean and variance of the tensor less the shift, which have no gradient."""

    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, shift: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        shape, others = _of_channels(tensor)
        shifted, mean, variance = shifted_moments(precise(tensor), shift.view(shape), others)
        inverse = _materialized(torch.rsqrt(variance + eps))
        slope = inverse if weight is None else _materialized(inverse * weight)
        offset = _materialized(-mean * slope if bias is None else bias - mean * slope)
        ctx.save_for_backward(tensor, shift, mean, inverse, slope)
        ctx.is_affine = weight is not None, bias is not None
        ctx.mark_non_differentiable(mean, variance)
        output = shifted * slope.view(shape) + offset.view(shape)
        return output.to(tensor.dtype), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        tensor, shift, mean, inverse, slope = ctx.saved_tensors
        has_weight, has_bias = ctx.is_affine
        shape, others = _of_channels(tensor)
        count = tensor.numel() / tensor.shape[1]
        shifted, gradient = precise(tensor) - shift.view(shape), precise(gradients[0])
        total = gradient.sum(others)
        along = (gradient * shifted).sum(others) - mean * total
        bend = _materialized(-slope * inverse.square() * along / count)
        rest = _materialized(-slope * total / count - bend * mean)
        of_tensor = gradient * slope.view(shape) + shifted * bend.view(shape) + rest.view(shape)
        of_weight = along * inverse if has_weight else None
        return of_tensor.to(tensor.dtype), None, of_weight, total if has_bias else None, None


def _of_channels(tensor: Tensor) -> tuple[list[int], list[int]]:
    """The shape of a number for every channel, and the dimensions that are summed over."""
    return [1, -1] + [1] * (tensor.dim() - 2), [dim for dim in range(tensor.dim()) if dim != 1]


def _materialized(of_channels: Tensor) -> Tensor:
    """The same numbers. The compiler computes what a view of memory is taken of, and not anew wherever it is read."""
    return of_channels.as_strided(of_channels.shape, of_channels.stride())


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
