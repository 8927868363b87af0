"""Deploy: write a chosen model's file, verify it in the runtimes that are here, and only then give it its name."""

from pathlib import Path

from pdqat.errors import InputError
from pdqat.export.chosen import Chosen
from pdqat.export.formats import Format, Tell, format_of
from pdqat.export.verify import Verified

LEAST_AGREEMENT = 0.995
"""Of a file with the simulated model; one below is not kept."""

ON_THE_EDGE = 1e-4
"""The part of inexact channels' codes that may differ."""
BEHIND_REAL = 1e-3
"""The part of codes made from real numbers that may differ."""
MOST_OFF = 0.05
"""The part of images whose outputs may differ from the reference's by more than rounding."""


def write_file(
    chosen: Chosen, path: Path, form: Format, pack: bool = False, tell: Tell = lambda _: None
) -> list[Verified]:
    """Write under a temporary name, verify, and give the file its name only if it passes."""
    if path.suffix != form.suffix:
        raise InputError(f"{path.name} must end in {form.suffix}, since the format is {form.name}")
    if pack and not form.packs:
        raise InputError(f"--pack is for the formats that hold integer weights, onnx and openvino, not for {form.name}")
    unverified = path.with_name(f".unverified-{path.name}")
    try:
        form.write(chosen, unverified, pack)
        found = form.verify(chosen, unverified, tell)
        failed = next((each for each in found if not passes(each)), None)
        if failed is not None:
            raise InputError(f"{path} was not written, since it fails in {failed.runtime}: {describe(failed)}")
        _rename(unverified, path, form)
    finally:
        for suffix in form.suffixes:
            unverified.with_suffix(suffix).unlink(missing_ok=True)
    return found


def _rename(unverified: Path, path: Path, form: Format) -> None:
    """Of two files the named one goes first and comes last: cut short, there is none beside another's weights."""
    if any(path.with_suffix(suffix).is_dir() for suffix in form.suffixes):
        raise InputError(f"{path} can't be written: there is a folder of that name, or of its .bin's")
    if len(form.suffixes) > 1:
        path.unlink(missing_ok=True)
    for suffix in reversed(form.suffixes):
        unverified.with_suffix(suffix).replace(path.with_suffix(suffix))


def verify_file(chosen: Chosen, path: Path, tell: Tell = lambda _: None) -> list[Verified]:
    """A file on all test images, in every installed runtime that reads its format."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return format_of(path).verify(chosen, path, tell)


def passes(found: Verified) -> bool:
    """Whether codes are computed as the integer reference does, and choices are the simulated model's.

    Every code must be the reference's. Only in inexact channels, whose integers can lie on the edge of two codes, and
    behind real numbers may runtimes round a few the other way.
    """
    codes = found.codes
    on_the_edge = codes.edge.different <= ON_THE_EDGE * codes.edge.count
    same = codes.exact.different == 0 and on_the_edge and codes.real.different <= BEHIND_REAL * codes.real.count
    return same and found.outputs_off <= MOST_OFF and found.agreement >= LEAST_AGREEMENT


def describe(found: Verified) -> str:
    """In one line."""
    codes = found.codes
    kinds = (
        (codes.exact, "codes differ from the reference"),
        (codes.edge, "in inexact channels"),
        (codes.real, "behind real numbers"),
    )
    differences = "".join(f", {each.different} of {each.count:,} {where}" for each, where in kinds if each.count)
    return (
        f"agreement with the simulated model {found.agreement:.2%}, accuracy {found.accuracy:.2%} (simulated "
        f"{found.simulated_accuracy:.2%}){differences}"
    )
