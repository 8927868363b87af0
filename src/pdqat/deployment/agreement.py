"""How much of the simulated model the integer reference is: the part of each layer's codes that both have in common."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, fx

from pdqat.deployment.deployable import Deployable
from pdqat.deployment.integer.layers import layer_or_norm
from pdqat.layers.distances import precise
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.layer_quantizers import LayerQuantizers
from pdqat.precision import BitPlan


class Recording(fx.Interpreter):
    """The integer reference; keeps what some operations make."""

    def __init__(self, module: fx.GraphModule, operations: set[str]) -> None:
        super().__init__(module)
        self._operations = operations
        self.codes: dict[str, Tensor] = {}

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operation."""
        made = super().call_module(target, args, kwargs)
        if str(target) in self._operations:
            self.codes[str(target)] = made
        return made


class LayerAgreement:
    """Counts, over some batches, the codes that layers read.

    Nothing is set right on the way: what differs in one layer is seen in those behind it.
    """

    def __init__(self, model: Deployable) -> None:
        self._model = model
        self._count = dict.fromkeys((layer for layer, _ in model.frozen.reads), 0)
        self._equal = dict(self._count)

    @torch.no_grad()
    def add(self, inputs: Any) -> None:
        """Count on some more samples."""
        frozen, samples = self._model.frozen, self._model.samples(inputs)
        reference = Recording(frozen.module, {operation for _, operation in (*frozen.reads, *frozen.adds)})
        reference.run(*samples.read.values())
        simulated = _CodesRead(self._model.followed.module, self._model.plan, self._count)
        with self._model.net.under(self._model.plan):
            simulated.run(*samples.read.values())
        for layer, calls in frozen.by_layer(reference.codes).read.items():
            for made, wanted in zip(calls, simulated.codes[layer], strict=True):
                self._count[layer] += made.numel()
                self._equal[layer] += int((made == wanted).sum())

    @property
    def parts(self) -> dict[str, float]:
        """Per quantised layer, from 0 to 1."""
        return {layer: self._equal[layer] / count for layer, count in self._count.items() if count}


class _CodesRead(fx.Interpreter):
    """The simulated model; keeps the codes that some layers read, call by call."""

    def __init__(self, followed: fx.GraphModule, plan: BitPlan, layers: Iterable[str]) -> None:
        super().__init__(followed)
        self._plan = plan
        self.codes: dict[str, list[Tensor]] = {name: [] for name in layers}

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A layer, or anything else."""
        layer = layer_or_norm(self.fetch_attr(str(target)))
        if isinstance(layer, PrecisionLayer) and layer.name in self.codes:
            view, bits = layer.views[self._plan.name], self._plan[layer.name].activation
            assert isinstance(view, LayerQuantizers)
            assert bits is not None
            (read,) = (*args, *kwargs.values())
            self.codes[layer.name].append(view.activation.codes(precise(read), bits).integers)
        return super().call_module(target, args, kwargs)
