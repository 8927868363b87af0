"""Where the numbers come from: command, configuration, versions, and a checksum of the data."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from pdqat.batches import tensors_in
from pdqat.reporting.subject import Pair, Provenance, Subject


@dataclass(frozen=True)
class Origin:
    """How the numbers can be had again."""

    commands: list[str]
    configuration: str
    versions: dict[str, str]
    processor: str
    checksum: str
    checksum_of: str


def provenance_of(subject: Subject) -> Origin:
    """Of the training that is reported on."""
    known: Provenance = subject.provenance
    checksum, what = known.checksum, known.checksum_of
    if not checksum and len(subject.validation):
        checksum = checksum_of_batches(subject.validation)
        what = f"the first {len(subject.validation):,} validation samples as the model reads them"
    return Origin(
        known.commands,
        known.configuration,
        dict(subject.summary.get("versions", {})),
        subject.summary.get("processor", ""),
        checksum,
        what,
    )


def checksum_of_batches(batches: Iterable[Pair]) -> str:
    """SHA-256 of all inputs and targets."""
    return checksum_of(tensor for pair in batches for tensor in tensors_in(pair))


def checksum_of(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of the tensors' bytes."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
