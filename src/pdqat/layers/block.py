"""The twin of a block: a named submodule computed again in full precision on the same low-precision input."""

from typing import Any

from torch import Tensor, nn

from pdqat.batches import each_tensor
from pdqat.errors import InputError
from pdqat.layers.draws import Draws
from pdqat.layers.state import ViewState


class BlockTwin:
    """A forward hook that compares f_l(z) with f_l^q(z) for a block l.

    An object, not a closure, so that a deep copy of the network carries a hook with the copy's own state.
    """

    def __init__(self, name: str, channel_dim: int, state: ViewState) -> None:
        self.name = name
        self.channel_dim = channel_dim
        self.state = state
        self._draws: list[Draws] = []
        """Of the calls of the block that are under way."""

    def before(self, block: nn.Module, args: tuple[Any, ...]) -> None:
        """Called by torch before the block's own forward."""
        recorder = self.state.recorder
        if recorder is not None and recorder.wants(self.name):
            self._draws.append(Draws(block.training, next(block.parameters()).device))

    def __call__(self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Called by torch after the block's own forward."""
        recorder = self.state.recorder
        if recorder is None or not recorder.wants(self.name):
            return
        if not isinstance(output, Tensor):
            raise InputError(
                f"block {self.name!r} returns a {type(output).__name__}; a block constraint needs a tensor"
            )
        self._draws.pop().repeat()
        with self.state.twin():
            full = block.forward(*each_tensor(args, Tensor.detach), **each_tensor(kwargs, Tensor.detach))
        for at_reader in (False, True):  # a block has no norm of its own behind it: every distance is taken here
            recorder.compare(self.name, full, output.detach(), self.channel_dim, at_reader)
