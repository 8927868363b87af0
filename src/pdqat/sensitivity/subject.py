"""Subject: a run's model with held-out images, as every ranking needs it."""

import copy
import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor, nn

from pdqat.allocation.sizes import LayerSize, layer_sizes
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import Network
from pdqat.layers.layer import LayerQuantizers, PrecisionLayer
from pdqat.precision import BitPlan
from pdqat.training.checkpoints import load_checkpoint
from pdqat.training.config import Method
from pdqat.training.run import Run, has_evidence
from pdqat.training.setup import Setup

IMAGES = 1000


class Subject:
    """One plan of a run, and so many validation images to judge it by."""

    def __init__(self, run: Run, setup: Setup, metrics: list[dict[str, Any]], images: int = IMAGES) -> None:
        self.run = run
        self.setup = setup
        self.metrics = metrics
        """Of the run's epochs so far, at least one."""
        self._images = images
        if len(setup.net.plans) > 1:
            raise InputError(
                f"the run {run.path} has {len(setup.net.plans)} plans; layers are ranked for runs with one plan"
            )
        setup.objective.eval()

    @classmethod
    def of_run(cls, run: Run, images: int = IMAGES) -> Self:
        """The chosen model of a finished run."""
        epochs = run.summary().get("epochs")
        config = run.config()
        if config.method is Method.FULL:
            raise InputError(
                f"the run {run.path} trained full precision only; its layers have no low precision to rank"
            )
        metrics = run.metrics()
        if not metrics or len(metrics) != epochs:
            raise InputError(
                f"{run.metrics_file} is missing or damaged: it holds {len(metrics)} epochs, the run's summary {epochs}"
            )
        if not all(has_evidence(each) for each in metrics):
            raise InputError(f"{run.metrics_file} is damaged: not every line is an epoch's, with its constraints")
        setup = Setup(dataclasses.replace(config, init=None))
        setup.load(load_checkpoint(run.best), run.best)
        known = [each["where"] for each in metrics[-1]["constraints"]]
        if isinstance(setup.objective, Lagrangian) and known != [each.where for each in setup.objective.constraints]:
            raise InputError(f"{run.metrics_file} is damaged: its last epoch has not the constraints of the run's plan")
        return cls(run, setup, metrics, images)

    @property
    def net(self) -> Network:
        """The network with the chosen model's weights."""
        return self.setup.net

    @property
    def plan(self) -> BitPlan:
        """The run's plan."""
        return next(iter(self.net.plans.values()))

    @property
    def layers(self) -> dict[str, PrecisionLayer]:
        """Those that the plan quantises, in the order of the model."""
        low = set(self.plan.low_layers)
        return {name: layer for name, layer in self.net.layers.items() if name in low}

    def quantizers(self, name: str) -> LayerQuantizers:
        """Of a layer under the plan."""
        view = self.net.layers[name].views[self.plan.name]
        assert isinstance(view, LayerQuantizers)
        return view

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The held-out images."""
        left = self._images
        for inputs, target in self.setup.validation_batches():
            if left <= 0:
                return
            yield inputs[:left], target[:left]
            left -= len(target)

    @cached_property
    def sizes(self) -> dict[str, LayerSize]:
        """Parameters and multiply-accumulates of every layer that can be quantised."""
        return layer_sizes(self.net, next(self.batches())[0])

    def need_full_view(self) -> None:
        """Refuse what compares with full precision where that was not trained."""
        if self.setup.config.method is Method.STE:
            raise InputError(
                f"the run {self.run.path} was trained by method 'ste', which leaves the full-precision view untrained; "
                "rank its layers by distance, random or first-and-last"
            )

    @cached_property
    def plain(self) -> nn.Module:
        """A copy as the full-precision view computes it, without anything of quantisation in it."""
        self.need_full_view()
        model = copy.deepcopy(self.net).restore(bake=True)
        return model.eval()

    def plain_weight(self, name: str) -> Tensor:
        """A layer's weight in `plain`."""
        weight = self.plain.get_submodule(name).weight
        assert isinstance(weight, Tensor)
        return weight

    def weight_errors(self) -> dict[str, Tensor]:
        """Per layer quantize(w) - full(w); zero where the plan leaves the weights alone."""
        errors = {}
        with torch.no_grad():
            for name, layer in self.layers.items():
                bits = self.plan[name].weight
                full = layer.full_weight()
                quantizer = self.quantizers(name).weight
                errors[name] = torch.zeros_like(full) if bits is None else quantizer.quantize(layer.weight, bits) - full
        return errors
