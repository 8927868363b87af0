"""Witnesses: how the codes of a file are seen, each in its own way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pdqat.deployment.agreement import Recording
from pdqat.deployment.bounds.reference import code_makers
from pdqat.deployment.integer.frozen import Frozen, LayerCodes
from pdqat.deployment.runtimes import OUTPUT, Session, array


@dataclass(frozen=True)
class Seen:
    """What was seen of a batch."""

    operations: Mapping[str, Tensor]
    """The codes by operation of the integer reference; empty for a file that is not in integers."""
    layers: LayerCodes
    """The same by layer."""
    output: Tensor | None
    """Behind these codes; None if they are not the file's own."""

    def rows(self, index: Tensor) -> "Seen":
        """Of some images."""
        return Seen(
            {name: codes[index] for name, codes in self.operations.items()},
            self.layers.rows(index),
            None if self.output is None else self.output[index],
        )


class Witness(Protocol):
    """Shows codes."""

    def look(self, images: Tensor) -> Seen:
        """The codes of a batch."""


class CodesSession:
    """A file whose codes are made further outputs, called codes/OPERATION."""

    def __init__(self, session: Session, frozen: Frozen) -> None:
        self._session, self._frozen = session, frozen

    def look(self, images: Tensor) -> Seen:
        """The runtime's own codes."""
        outputs = self._session.run(array(images))
        operations = {name: torch.from_numpy(outputs[f"codes/{name}"]) for name in code_makers(self._frozen.module)}
        return Seen(operations, self._frozen.by_layer(operations), torch.from_numpy(outputs[OUTPUT]))


class ReferenceCodes:
    """The integer reference itself, for a file that can't show its codes."""

    def __init__(self, frozen: Frozen) -> None:
        self._frozen = frozen

    @torch.no_grad()
    def look(self, images: Tensor) -> Seen:
        """The codes that the file should have."""
        reference = Recording(self._frozen.module, set(code_makers(self._frozen.module)))
        reference.run(images)
        return Seen(reference.codes, self._frozen.by_layer(reference.codes), None)


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor on a grid, which is a further output of a file."""

    layer: str
    output: str
    step: float


class GridSession:
    """A file of the simulated network, whose quantised tensors are made further outputs."""

    def __init__(self, session: Session, read: Sequence[QuantizedTensor], added: Sequence[QuantizedTensor]) -> None:
        self._session, self._read, self._added = session, read, added

    def look(self, images: Tensor) -> Seen:
        """The whole numbers of a step that the runtime made."""
        outputs = self._session.run(array(images))
        layers = LayerCodes()
        for per_name, tensors in ((layers.read, self._read), (layers.added, self._added)):
            for tensor in tensors:
                numbers = torch.from_numpy(outputs[tensor.output]).double() / tensor.step
                per_name.setdefault(tensor.layer, []).append(torch.round(numbers).to(torch.int32))
        return Seen({}, layers, torch.from_numpy(outputs[OUTPUT]))
