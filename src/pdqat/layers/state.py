"""Which view of a network is being computed. One object, shared by all precision-aware modules of one network.

Modules reach it through an attribute, never through a global or a closure, so a deep copy of the network gets its own.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from torch import Tensor

from pdqat.precision import BitPlan

if TYPE_CHECKING:
    from pdqat.layers.recorder import Recorder


class Gradient(StrEnum):
    """What a gradient through the low-precision view may reach."""

    EXACT = "exact"
    """Rounding has gradient zero: only what lies behind the last rounding gets any."""
    NORMS = "norms"
    """The batch norms' affine parameters follow a straight-through gradient. Weights and biases feel none of it: those
    before the last rounding get nothing through the low-precision view, those behind it the exact gradient."""
    STRAIGHT_THROUGH = "straight-through"
    """Rounding is passed over: weights and norms alike follow a straight-through gradient."""


class ViewState:
    """The view that the modules compute now: full precision, or a plan with its gradient rule and its recorder."""

    def __init__(self) -> None:
        self.plan: BitPlan | None = None
        self.gradient = Gradient.EXACT
        self.recorder: Recorder | None = None
        self.calibrating: frozenset[str] = frozenset()
        self.track_statistics = True
        self.is_shared = False
        """Whether the batch is this process's share of one that all processes compute now."""
        self.sync_norms = True
        """Whether norms then take their statistics from all shares, as one process would, or each from its own."""
        self.stand_in: Callable[[Any, Tensor], Tensor] | None = None
        """What layers and norms return instead of computing, of themselves and their input: for following a graph in
        which each of them is one operation."""

    @contextmanager
    def under(
        self, plan: BitPlan | None, gradient: Gradient = Gradient.EXACT, recorder: "Recorder | None" = None
    ) -> Iterator[None]:
        """Compute under `plan`, or in full precision if it is None, until the block ends."""
        before = self.plan, self.gradient, self.recorder
        self.plan, self.gradient, self.recorder = plan, gradient, recorder
        try:
            yield
        finally:
            self.plan, self.gradient, self.recorder = before

    @contextmanager
    def shared(self, is_shared: bool) -> Iterator[None]:
        """Compute a share of a batch, if it is one, until the block ends."""
        before, self.is_shared = self.is_shared, is_shared
        try:
            yield
        finally:
            self.is_shared = before

    @contextmanager
    def twin(self) -> Iterator[None]:
        """Compute in full precision on low-precision inputs, leaving the running statistics as they are."""
        self.track_statistics = False
        try:
            with self.under(None):
                yield
        finally:
            self.track_statistics = True

    @contextmanager
    def standing_in(self, function: Callable[[Any, Tensor], Tensor]) -> Iterator[None]:
        """Let layers and norms return `function(module, input)` until the block ends."""
        before, self.stand_in = self.stand_in, function
        try:
            yield
        finally:
            self.stand_in = before

    @contextmanager
    def calibration(self, names: Iterable[str]) -> Iterator[None]:
        """Let the quantisers of these layers and norms set their state from what they see."""
        self.calibrating = frozenset(names)
        try:
            yield
        finally:
            self.calibrating = frozenset()
