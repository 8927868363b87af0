"""Hessian-based sensitivity as in HAWQ-V2: mean eigenvalue of a layer's Hessian times its squared weight error.

    trace(H_l) = E[v_l . (H v)_l]    for v of independent random signs (Hutchinson)

One Hessian-vector product serves all layers at once: products between layers vanish in the mean.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from pdqat.sensitivity.subject import Subject

DRAWS = 10


def trace_times_error(subject: Subject) -> dict[str, float]:
    """trace(H_l) / n_l x |quantize(w) - full(w)|^2, of the task loss in full precision."""
    errors = subject.weight_errors()
    weights = [subject.plain_weight(name) for name in errors]
    generator = torch.Generator().manual_seed(0)
    traces = torch.zeros(len(weights))
    count = 0
    for inputs, target in subject.batches():
        with torch.enable_grad():
            loss = F.cross_entropy(subject.plain(inputs), target)
            traces += hutchinson(loss, weights, DRAWS, generator) * len(target)
        count += len(target)
    means = traces / count / torch.tensor([weight.numel() for weight in weights])
    squares = (float(error.square().sum()) for error in errors.values())
    return {name: float(mean) * square for name, mean, square in zip(errors, means, squares, strict=True)}


def hutchinson(loss: Tensor, weights: Sequence[Tensor], draws: int, generator: torch.Generator) -> Tensor:
    """An estimate of the trace of the loss's Hessian in each of the weights."""
    gradients = torch.autograd.grad(loss, weights, create_graph=True)
    total = torch.zeros(len(weights))
    for draw in range(draws):
        signs = [_signs(weight, generator) for weight in weights]
        products = torch.autograd.grad(gradients, weights, signs, retain_graph=draw + 1 < draws)
        total += torch.tensor([float((v * hv).sum()) for v, hv in zip(signs, products, strict=True)])
    return total / draws


def _signs(weight: Tensor, generator: torch.Generator) -> Tensor:
    drawn = torch.randint(2, weight.shape, generator=generator, dtype=weight.dtype)
    return (2 * drawn - 1).to(weight.device)
