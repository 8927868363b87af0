"""Witnesses: how the codes of a file are seen, each in its own way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pdqat.deployment.agreement import Recording
from pdqat.deployment.bounds.reference import code_makers
from pdqat.deployment.deployable import Samples
from pdqat.deployment.integer.frozen import Frozen, LayerCodes
from pdqat.deployment.runtimes import Session, arrays


@dataclass(frozen=True)
class Seen:
    """What was seen of a batch."""

    operations: Mapping[str, Tensor]
    """The codes by operation of the integer reference; empty for a file that is not in integers."""
    layers: LayerCodes
    """The same by layer."""
    outputs: Mapping[str, Tensor]
    """Behind these codes, by name; none if they are not the file's own."""


class Witness(Protocol):
    """Shows codes."""

    def look(self, samples: Samples) -> Seen:
        """The codes of a batch."""


class CodesSession:
    """A file whose codes are made further outputs, called codes/OPERATION."""

    def __init__(self, session: Session, frozen: Frozen) -> None:
        self._session, self._frozen = session, frozen

    def look(self, samples: Samples) -> Seen:
        """The runtime's own codes."""
        outputs = self._session.run(arrays(samples.read))
        operations = {name: torch.from_numpy(outputs[f"codes/{name}"]) for name in code_makers(self._frozen.module)}
        return Seen(operations, self._frozen.by_layer(operations), _tensors(outputs, self._frozen.outputs))


class ReferenceCodes:
    """The integer reference itself, for a file that can't show its codes."""

    def __init__(self, frozen: Frozen) -> None:
        self._frozen = frozen

    @torch.no_grad()
    def look(self, samples: Samples) -> Seen:
        """The codes that the file should have."""
        reference = Recording(self._frozen.module, set(code_makers(self._frozen.module)))
        reference.run(*samples.read.values())
        return Seen(reference.codes, self._frozen.by_layer(reference.codes), {})


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor on a grid, which is a further output of a file."""

    layer: str
    output: str
    step: float


class GridSession:
    """A file of the simulated network, whose quantised tensors are made further outputs."""

    def __init__(
        self,
        session: Session,
        outputs: Sequence[str],
        read: Sequence[QuantizedTensor],
        added: Sequence[QuantizedTensor],
    ) -> None:
        self._session, self._outputs, self._read, self._added = session, outputs, read, added

    def look(self, samples: Samples) -> Seen:
        """The whole numbers of a step that the runtime made."""
        outputs = self._session.run(arrays(samples.read))
        layers = LayerCodes()
        for per_name, tensors in ((layers.read, self._read), (layers.added, self._added)):
            for tensor in tensors:
                numbers = torch.from_numpy(outputs[tensor.output]).double() / tensor.step
                per_name.setdefault(tensor.layer, []).append(torch.round(numbers).to(torch.int32))
        return Seen({}, layers, _tensors(outputs, self._outputs))


def _tensors(arrays: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(arrays[name]) for name in names}
