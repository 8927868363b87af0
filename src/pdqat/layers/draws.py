"""Draws: what is random in one forward, repeated in all views of it, so that dropout has one mask for all of them.

Then a distance between two views is about precision, not about dropout. A compiled forward draws anew in every view:
the compiler has no way to repeat.
"""

import torch
from torch import Tensor


class Draws:
    """The state of torch's generators where one view begins.

    Args:
        active: whether there is something to repeat: evaluation draws nothing.
    """

    def __init__(self, active: bool) -> None:
        self._states: list[Tensor] | None = None
        if active and not torch.compiler.is_compiling():
            self._states = _states()

    def repeat(self) -> None:
        """Let what follows draw what was drawn since."""
        if self._states is not None:
            _set_states(self._states)


def _states() -> list[Tensor]:
    on_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return [torch.get_rng_state(), *on_devices]


def _set_states(states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state_all(states[1:])
