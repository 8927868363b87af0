"""Footprint: what a network takes where there is no runtime."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Footprint:
    """In bytes, and what is computed."""

    constants: int
    """Weights, in the bits that they have, and what sums are rounded by."""
    arena: int
    """All memory that changes, but the stack."""
    least_arena: int
    """What no placing of the tensors could be below: the most that is in use at one time."""
    macs: int
    """Products that are added up for one sample."""
    real: Sequence[str]
    """What is computed in real numbers, step by step."""

    def __str__(self) -> str:
        memory = f"arena {self.arena:,} bytes, of which at least {self.least_arena:,} are in use at one time"
        real = f"; {len(self.real)} steps in real numbers, which its README.md names" if self.real else ""
        return f"{memory}; {self.macs:,} multiply-accumulates{real}"
