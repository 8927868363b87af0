"""Hessian-based sensitivity as in HAWQ-V2: mean eigenvalue of a layer's Hessian times its squared weight error.

    trace(H_l) = E[v_l . (H v)_l]    for v of independent random signs (Hutchinson)

One Hessian-vector product serves all layers at once: products between layers vanish in the mean.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from pdqat.batches import Batches, samples_in
from pdqat.errors import InputError
from pdqat.sensitivity.low_layers import full_view, instead_of, leaves, weight_errors
from pdqat.task import Problem

DRAWS = 10


def trace_times_error(problem: Problem, batches: Batches) -> dict[str, float]:
    """trace(H_l) / n_l x |quantize(w) - full(w)|^2, of the task loss in full precision."""
    errors = weight_errors(problem)
    weights = leaves(problem, errors)
    generator = torch.Generator().manual_seed(0)
    traces = torch.zeros(len(weights))
    samples = 0
    for inputs, target in batches:
        # torch's fast attention has no second derivative.
        with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), full_view(problem, instead_of(weights)) as net:
            loss = problem.loss(net.call(inputs), target)
            traces += hutchinson(loss, list(weights.values()), DRAWS, generator) * samples_in(inputs)
        samples += samples_in(inputs)
    means = traces / samples / torch.tensor([weight.numel() for weight in weights.values()])
    squares = (float(error.square().sum()) for error in errors.values())
    return {name: float(mean) * square for name, mean, square in zip(errors, means, squares, strict=True)}


def hutchinson(loss: Tensor, weights: Sequence[Tensor], draws: int, generator: torch.Generator) -> Tensor:
    """An estimate of the trace of the loss's Hessian in each of the weights."""
    gradients = _gradients(loss, weights, retain_graph=True, create_graph=True)
    total = torch.zeros(len(weights))
    for draw in range(draws):
        signs = [_signs(weight, generator) for weight in weights]
        try:
            along = torch.stack([(gradient * sign).sum() for gradient, sign in zip(gradients, signs, strict=True)])
            products = _gradients(along.sum(), weights, retain_graph=draw + 1 < draws)
        except RuntimeError as error:
            if "is not implemented" not in str(error):
                raise
            raise InputError(
                f"the ranking 'hessian' needs second derivatives of the model, which torch does not have ({error}); "
                "choose another ranking"
            ) from error
        total += torch.tensor([float((v * hv).sum()) for v, hv in zip(signs, products, strict=True)])
    return total / draws


def _gradients(
    loss: Tensor, weights: Sequence[Tensor], retain_graph: bool, create_graph: bool = False
) -> tuple[Tensor, ...]:
    """0 for weights of parts that a model computes without gradients."""
    return torch.autograd.grad(
        loss,
        weights,
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
        materialize_grads=True,
    )


def _signs(weight: Tensor, generator: torch.Generator) -> Tensor:
    drawn = torch.randint(2, weight.shape, generator=generator, dtype=weight.dtype)
    return (2 * drawn - 1).to(weight.device)
