"""A run's chosen model under a plan, ready to be written."""

import copy
import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, fx

from pdqat.allocation.plan_file import PlanModel, check_model, read_plan
from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.export.freeze import Frozen, freeze
from pdqat.export.verify import CODE_IMAGES, layer_agreement
from pdqat.quantizers import SCHEMES
from pdqat.training.checkpoints import load_checkpoint
from pdqat.training.config import Method
from pdqat.training.run import Run
from pdqat.training.setup import Setup


@dataclass(frozen=True)
class Chosen:
    """A run's chosen model under one plan."""

    setup: Setup
    example: Tensor

    @cached_property
    def frozen(self) -> Frozen:
        """In integers."""
        return freeze(self.setup.net, self.setup.plan)

    @cached_property
    @torch.no_grad()
    def simulated(self) -> Tensor:
        """The outputs of the simulated model for all test images."""
        with self.setup.net.under(self.setup.plan):
            return torch.cat([self.setup.net(images) for images, _ in self.setup.test_batches()])

    @cached_property
    def layers(self) -> dict[str, float]:
        """Per quantised layer, the part of its codes of test images that reference and simulated model share."""
        images, _ = next(iter(self.setup.test_batches()))
        return layer_agreement(self.frozen, self.setup.net, self.setup.plan, images[:CODE_IMAGES])


def chosen_model(run: Run, plan: Path | None = None) -> Chosen:
    """Load it; with `plan` under another plan than the run's."""
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
        check_model(plan, PlanModel(config.model, config.width))
        setup.change_plan(read_plan(plan))
    setup.net.eval()
    example, _ = next(iter(setup.test_batches()))
    return Chosen(setup, example[:2])


def write_float(chosen: Chosen, path: Path) -> None:
    """The full-precision view as a float32 file, to compare with."""
    from pdqat.export.onnx_file import to_onnx

    plain = copy.deepcopy(chosen.setup.net).restore(bake=True).eval()
    write_atomically(path, to_onnx(fx.symbolic_trace(plain), chosen.example).SerializeToString())
