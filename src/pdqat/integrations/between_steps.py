"""What primal-dual training does beside the steps of the weights, for loops that are not ours."""

from collections import deque
from typing import Any

from torch import Tensor, nn

from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.norm_statistics import estimate_statistics
from pdqat.training.settings import Settings


class BetweenSteps:
    """Steps of the multipliers, and statistics of low-precision norms for the weights as they are.

    Args:
        dual_every: steps of the weights between steps of the multipliers; 0 is once an epoch.
        norm_batches: the last so many batches, which are kept in memory where the network has batch norms, give these
            their statistics; 0 keeps the running ones.
    """

    def __init__(self, dual_every: int, norm_batches: int) -> None:
        Settings(epochs=1, dual_every=dual_every, norm_batches=norm_batches)  # which says what is wrong with them
        self.dual_every = dual_every
        self._seen: deque[Any] = deque(maxlen=norm_batches)
        self.numbers: dict[str, Tensor] = {}
        """Slacks and multipliers at the last dual step; of channels, the largest of either."""

    def take(self, module: nn.Module) -> None:
        """Work for the one Lagrangian in a module."""
        found = [part for part in module.modules() if isinstance(part, Lagrangian)]
        if len(found) != 1:
            raise InputError(f"{type(module).__name__} must hold one pdqat.Lagrangian, but it holds {len(found)}")
        self.problem = found[0]
        self._has_norms = any(isinstance(part, PrecisionNorm) for part in self.problem.net.modules())

    def see(self, inputs: Any) -> None:
        """A batch was trained on."""
        if self._has_norms:
            self._seen.append(inputs)

    def dual_step(self) -> None:
        """One step of the multipliers, on the slacks since the last one; collective."""
        duals = self.problem.duals
        slacks = duals.named(self.problem.dual_step())
        self.numbers = {f"slack/{name}": slack.max() for name, slack in slacks.items()}
        self.numbers |= {f"multiplier/{name}": multiplier.max() for name, multiplier in duals.named().items()}

    def estimate_norms(self) -> None:
        """Before the low-precision views are judged or used; collective."""
        batches = [(inputs, None) for inputs in self._seen]
        for plan in self.problem.net.plans.values() if batches else ():
            estimate_statistics(self.problem.net, plan, batches, len(batches))
