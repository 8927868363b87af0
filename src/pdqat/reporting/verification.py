"""Exported files: whether each was verified, and the evidence."""

from dataclasses import dataclass, field
from typing import Any

from pdqat.errors import InputError
from pdqat.reporting.subject import Subject


@dataclass(frozen=True)
class RuntimeEvidence:
    """What a runtime made of the file."""

    runtime: str
    passes: bool
    images: int
    note: str
    """What differs, and whether rounding explains it."""
    accuracy: float | None
    simulated_accuracy: float | None
    agreement: float | None


@dataclass(frozen=True)
class ExportedFile:
    """A file that was exported from the model."""

    file: str
    bytes: int
    sha256: str
    state: str
    """verified, failed or unverified."""
    runtimes: list[RuntimeEvidence] = field(default_factory=list)


def verification_of(subject: Subject) -> list[ExportedFile]:
    """Of every file that was noted."""
    if not subject.exports:
        if subject.is_own:
            raise InputError("none was given: `exports=[...]` takes what `pdqat.export` returned")
        raise InputError("no file was exported yet: `pdqat export RUN` writes and verifies one")
    return [_file(name, entry) for name, entry in subject.exports.items()]


def _file(name: str, entry: dict[str, Any]) -> ExportedFile:
    keys = RuntimeEvidence.__dataclass_fields__
    runtimes = [RuntimeEvidence(**{key: result.get(key) for key in keys}) for result in entry.get("verified", ())]
    passes = all(runtime.passes for runtime in runtimes)
    state = "unverified" if not runtimes else "verified" if passes else "failed"
    return ExportedFile(name, entry["bytes"], entry["sha256"], state, runtimes)
