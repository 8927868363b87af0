"""Export: freeze a run's chosen model, write the file, verify it in the runtimes that are here, then keep it."""

import copy
import dataclasses
import io
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, fx

from pdqat.allocation.plan_file import read_plan
from pdqat.errors import InputError
from pdqat.export.freeze import Frozen, freeze
from pdqat.export.runtimes import Program, Session, load, needed
from pdqat.export.verify import Verified, verify
from pdqat.quantizers import SCHEMES
from pdqat.training.config import Method
from pdqat.training.files import load_checkpoint, write_atomically
from pdqat.training.run import Run
from pdqat.training.setup import Setup

LEAST_AGREEMENT = 0.995
"""Of a file with the simulated model; one below is not kept."""

ON_THE_EDGE = 1e-4
"""The part of codes that may differ then."""
BEHIND_REAL = 1e-3
"""The part of codes made from real numbers that may differ."""
MOST_OFF = 0.05
"""The part of images whose outputs may differ from the reference's by more than rounding."""
ONNX, PROGRAM = ".onnx", ".pt2"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Chosen:
    """A run's chosen model, frozen under one plan."""

    setup: Setup
    frozen: Frozen
    example: Tensor


def frozen_run(run: Run, plan: Path | None = None) -> Chosen:
    """Load and freeze; with `plan` under another plan than the run's."""
    run.summary()
    config = run.config()
    if config.method is Method.FULL:
        raise InputError(f"the run {run.path} trained full precision only: there is no low precision to export")
    setup = Setup(dataclasses.replace(config, init=None, device="cpu"))
    setup.load(load_checkpoint(run.best), run.best)
    if len(setup.net.plans) > 1:
        raise InputError(f"the run {run.path} has {len(setup.net.plans)} plans; a file is written for a run with one")
    if plan is not None:
        if not SCHEMES[config.quantizer].any_bits:
            raise InputError(
                f"quantizer {config.quantizer!r} keeps a step size for its own bits: export without --plan"
            )
        setup.change_plan(read_plan(plan))
    setup.net.eval()
    example, _ = next(iter(setup.test_batches()))
    return Chosen(setup, freeze(setup.net, setup.plan), example[:2])


def write_file(chosen: Chosen, path: Path, tell: Tell = lambda _: None) -> list[Verified]:
    """Write under a temporary name, verify, and give the file its name only if it passes."""
    if path.suffix not in (ONNX, PROGRAM):
        raise InputError(f"{path.name} must end in {ONNX} or {PROGRAM}, which says its format")
    unverified = path.with_name(f".unverified-{path.name}")
    try:
        write = _written_onnx if path.suffix == ONNX else _written_program
        found = write(chosen, unverified, tell)
        failed = next((each for each in found if not passes(each)), None)
        if failed is not None:
            raise InputError(f"{path} was not written, since it fails in {failed.runtime}: {describe(failed)}")
        unverified.replace(path)
    finally:
        unverified.unlink(missing_ok=True)
    return found


def verify_file(chosen: Chosen, path: Path, tell: Tell = lambda _: None) -> list[Verified]:
    """An ONNX file on all test images, in every installed runtime."""
    if path.suffix != ONNX:
        raise InputError(f"{path.name} does not end in {ONNX}: other files are not loaded, since that could run code")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    from pdqat.export.onnx_file import with_codes

    runtimes, found = needed(), []
    with tempfile.TemporaryDirectory() as folder:
        looking = Path(folder) / "codes.onnx"
        looking.write_bytes(with_codes(path, chosen.frozen.module, chosen.example).SerializeToString())
        for name in runtimes:
            tell(f"verifying in {name}")
            found.append(_verified(chosen, name, load(name, path), load(name, looking)))
    return found


def _written_onnx(chosen: Chosen, path: Path, tell: Tell) -> list[Verified]:
    from pdqat.export.onnx_file import to_onnx

    write_atomically(path, to_onnx(chosen.frozen.module, chosen.example).SerializeToString())
    return verify_file(chosen, path, tell)


def _written_program(chosen: Chosen, path: Path, tell: Tell) -> list[Verified]:
    batch = torch.export.Dim("batch", min=1)
    try:
        program = torch.export.export(chosen.frozen.module, (chosen.example,), dynamic_shapes=({0: batch},))
    except Exception as error:  # it raises many kinds
        raise InputError(f"torch.export can't take the model: {str(error).splitlines()[0]}") from error
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # about weights on other devices
        torch.export.save(program, buffer)
    write_atomically(path, buffer.getvalue())
    tell("verifying the program")
    return [_verified(chosen, "torch", Program(program), None)]


def _verified(chosen: Chosen, name: str, session: Session, with_codes: Session | None) -> Verified:
    setup = chosen.setup
    return verify(name, session, with_codes, chosen.frozen, setup.net, setup.plan, setup.test_batches())


def write_float(chosen: Chosen, path: Path) -> None:
    """The full-precision view as a float32 file, to compare with."""
    from pdqat.export.onnx_file import to_onnx

    plain = copy.deepcopy(chosen.setup.net).restore(bake=True).eval()
    write_atomically(path, to_onnx(fx.symbolic_trace(plain), chosen.example).SerializeToString())


def passes(found: Verified) -> bool:
    """Whether codes are computed as the integer reference does, and choices are the simulated model's.

    Every code must be the reference's. Only where a channel has no line through all its thresholds, so that integers
    can lie on the edge of two codes, may runtimes round a few the other way.
    """
    allowed = ON_THE_EDGE * found.codes if found.inexact_channels else 0
    same = found.different <= allowed and found.real_different <= BEHIND_REAL * found.real_codes
    return same and found.outputs_off <= MOST_OFF and found.agreement >= LEAST_AGREEMENT


def describe(found: Verified) -> str:
    """In one line."""
    real = f", {found.real_different} of {found.real_codes:,} behind real numbers" if found.real_codes else ""
    return (
        f"agreement with the simulated model {found.agreement:.2%}, accuracy {found.accuracy:.2%} (simulated "
        f"{found.simulated_accuracy:.2%}), {found.different} of {found.codes:,} codes differ from the reference{real}"
    )
