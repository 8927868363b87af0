"""A run's chosen model, loaded, frozen under a plan, and ready to be written."""

import copy
import dataclasses
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, fx

from pdqat.allocation.plan_file import read_plan
from pdqat.errors import InputError
from pdqat.export.freeze import Frozen, freeze
from pdqat.quantizers import SCHEMES
from pdqat.training.config import Method
from pdqat.training.files import load_checkpoint, write_atomically
from pdqat.training.run import Run
from pdqat.training.setup import Setup


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


def write_float(chosen: Chosen, path: Path) -> None:
    """The full-precision view as a float32 file, to compare with."""
    from pdqat.export.onnx_file import to_onnx

    plain = copy.deepcopy(chosen.setup.net).restore(bake=True).eval()
    write_atomically(path, to_onnx(fx.symbolic_trace(plain), chosen.example).SerializeToString())
