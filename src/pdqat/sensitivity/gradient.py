"""First-order sensitivity: how much the loss changes along a layer's weight error, |gradient . error|."""

import torch

from pdqat.batches import Batches, samples_in
from pdqat.sensitivity.low_layers import full_view, instead_of, leaves, weight_errors
from pdqat.task import Problem


def first_order(problem: Problem, batches: Batches) -> dict[str, float]:
    """Of the task loss in full precision, the mean over batches of |g . (quantize(w) - full(w))|."""
    errors = weight_errors(problem)
    weights = leaves(problem, errors)
    sums = dict.fromkeys(errors, 0.0)
    samples = 0
    for inputs, target in batches:
        with torch.enable_grad(), full_view(problem, instead_of(weights)) as net:
            loss = problem.loss(net.call(inputs), target)
            # A model may compute parts without gradients.
            gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, materialize_grads=True)
        for name, gradient in zip(weights, gradients, strict=True):
            sums[name] += float((gradient * errors[name]).sum().abs()) * samples_in(inputs)
        samples += samples_in(inputs)
    return {name: total / samples for name, total in sums.items()}
