"""First-order sensitivity: how much the loss changes along a layer's weight error, |gradient . error|."""

import torch
import torch.nn.functional as F

from pdqat.sensitivity.subject import Subject


def first_order(subject: Subject) -> dict[str, float]:
    """Of the task loss in full precision, the mean over batches of |g . (quantize(w) - full(w))|."""
    errors = subject.weight_errors()
    weights = {name: subject.plain_weight(name) for name in errors}
    sums = dict.fromkeys(errors, 0.0)
    count = 0
    for inputs, target in subject.batches():
        with torch.enable_grad():
            loss = F.cross_entropy(subject.plain(inputs), target)
            gradients = torch.autograd.grad(loss, list(weights.values()))
        for name, gradient in zip(weights, gradients, strict=True):
            sums[name] += float((gradient * errors[name]).sum().abs()) * len(target)
        count += len(target)
    return {name: value / count for name, value in sums.items()}
