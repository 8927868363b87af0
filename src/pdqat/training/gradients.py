"""The sizes of gradients, by which a training that has lost its way says where."""

import torch
from torch import Tensor, nn


class LargestGradients:
    """The largest entry of every parameter's gradient, at every step, noted without waiting for the device."""

    def __init__(self, model: nn.Module) -> None:
        self._named = dict(model.named_parameters())
        self._seen: list[tuple[int, list[str], Tensor]] = []

    def start_epoch(self) -> None:
        """Forget those of the epoch before."""
        self._seen = []

    def look(self, step: int) -> None:
        """At the gradients that a step is about to take."""
        gradients = {name: it.grad for name, it in self._named.items() if it.grad is not None}
        if gradients:
            largest = torch._foreach_norm([*gradients.values()], float("inf"))
            self._seen.append((step, [*gradients], torch.stack([*largest]).float()))

    def first_lost(self) -> tuple[int, str] | None:
        """The first step with a gradient that is not a number, and whose that was.

        Steps that were in order are forgotten but for the last, so that none is looked at twice.
        """
        for step, names, largest in self._seen:
            lost = (~torch.isfinite(largest)).nonzero()
            if len(lost):
                return step, names[int(lost[0])]
        self._seen = self._seen[-1:]
        return None

    def largest_before(self, step: int) -> tuple[str, float] | None:
        """The parameter with the largest gradient in the last step before, and that gradient."""
        before = [(names, largest) for at, names, largest in self._seen if at < step]
        if not before:
            return None
        names, largest = before[-1]
        return names[int(largest.argmax())], float(largest.max())
