"""The arena: buffers of tensors, overlapped where their lifetimes do not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Buffer:
    """Words that are used from the step that writes them to the last one that reads them."""

    words: int
    first: int
    last: int

    def meets(self, other: "Buffer") -> bool:
        """Whether there is a step at which both are in use."""
        return self.first <= other.last and other.first <= self.last


ORDERS: Sequence[Callable[[Buffer], tuple[int, ...]]] = (
    lambda buffer: (-buffer.words,),
    lambda buffer: (-buffer.words * (buffer.last - buffer.first + 1),),
    lambda buffer: (buffer.first, -buffer.words),
    lambda buffer: (-buffer.last, -buffer.words),
    lambda buffer: (buffer.first - buffer.last, -buffer.words),
)
"""In which buffers may be placed: none of them is best for all networks."""


def place(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """The first word of each, and how many there are in all: in the best of some orders, each as low as it fits.

    >>> place([Buffer(4, 0, 1), Buffer(2, 1, 2), Buffer(3, 2, 3)])
    ([0, 4, 0], 6)
    """
    return min((_placed(buffers, order) for order in ORDERS), key=lambda placed: placed[1])


def _placed(buffers: Sequence[Buffer], order: Callable[[Buffer], tuple[int, ...]]) -> tuple[list[int], int]:
    offsets: dict[int, int] = {}
    for index in sorted(range(len(buffers)), key=lambda index: (*order(buffers[index]), index)):
        buffer, offset = buffers[index], 0
        others = [(offsets[other], buffers[other].words) for other in offsets if buffer.meets(buffers[other])]
        for start, words in sorted(others):
            if offset + buffer.words <= start:
                break
            offset = max(offset, start + words)
        offsets[index] = offset
    total = max((offsets[index] + buffers[index].words for index in offsets), default=0)
    return [offsets[index] for index in range(len(buffers))], total


def least_words(buffers: Sequence[Buffer]) -> int:
    """What no placing can be below: the most words that are in use at one step.

    >>> least_words([Buffer(4, 0, 1), Buffer(2, 1, 2), Buffer(3, 2, 3)])
    6
    """
    steps = {buffer.first for buffer in buffers}
    return max((sum(one.words for one in buffers if one.first <= step <= one.last) for step in steps), default=0)
