"""Draws: what is random in one forward, repeated in all views of it, so that dropout has one mask for all of them.

Then a distance between two views is about precision, not about dropout. A compiled forward draws anew in every view:
the compiler has no way to repeat.
"""

import torch
from torch import Tensor


class Draws:
    """The state of the generators that a forward draws from, where one view begins.

    Args:
        active: whether there is something to repeat: evaluation draws nothing.
        device: where the forward is computed; the generator of the CPU may be drawn from too.
    """

    def __init__(self, active: bool, device: torch.device) -> None:
        self._on_cpu: Tensor | None = None
        self._on_device: Tensor | None = None
        self._device = device
        if active and not torch.compiler.is_compiling():
            self._on_cpu = torch.get_rng_state()
            self._on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def repeat(self) -> None:
        """Let what follows draw what was drawn since."""
        if self._on_cpu is not None:
            torch.set_rng_state(self._on_cpu)
        if self._on_device is not None:
            torch.cuda.set_rng_state(self._on_device, self._device)
