"""How much of the simulated model the integer reference is: the part of each layer's codes that both have in common."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, fx

from pdqat.deployment.deployable import Deployable
from pdqat.deployment.integer.frozen import LayerCodes
from pdqat.layers import Network
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
        simulated = codes_read(self._model.net, self._model.plan, set(self._count), samples.inputs)
        for layer, calls in frozen.by_layer(reference.codes).read.items():
            for made, wanted in zip(calls, simulated[layer], strict=True):
                self._count[layer] += made.numel()
                self._equal[layer] += int((made == wanted).sum())

    @property
    def parts(self) -> dict[str, float]:
        """Per quantised layer, from 0 to 1."""
        return {layer: self._equal[layer] / count for layer, count in self._count.items() if count}


def codes_read(net: Network, plan: BitPlan, layers: set[str], inputs: Any) -> Mapping[str, list[Tensor]]:
    """What layers of the simulated model read, call by call."""
    codes = LayerCodes(read={name: [] for name in layers}).read

    def keep(name: str, layer: PrecisionLayer, read: Tensor) -> None:
        view, bits = layer.views[plan.name], plan[name].activation
        assert isinstance(view, LayerQuantizers)
        assert bits is not None
        codes[name].append(view.activation.codes(precise(read), bits).integers)

    with ExitStack() as hooks, net.under(plan):
        for name in layers:
            layer = net.model.get_submodule(name)
            hooks.enter_context(
                layer.register_forward_pre_hook(
                    lambda module, args, kwargs, name=name: keep(name, module, *args, *kwargs.values()),
                    with_kwargs=True,
                )
            )
        net.call(inputs)
    return codes
