"""Verification: a file in the installed runtimes against the integer reference and the simulated model.

Four questions, on the same images:

codes       are the runtime's those of the integer reference, bit for bit? Each operation is asked on the codes that the
            runtime has before it. Those of inexact channels, whose integers may lie on the edge of two codes, are
            counted apart, and so are those made from real numbers (behind a layer in full precision): float32 sums of
            another order may round another way
outputs     are the file's outputs those of the reference on the runtime's last codes, up to rounding?
agreement   does the file choose the same class as the simulated model?
accuracy    does it choose the right one?

And one on the reference alone: are the codes that a layer reads those of the simulated model?
"""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from pdqat.errors import InputError
from pdqat.export.freeze import Frozen
from pdqat.export.operations import RequantizedProduct, SumsToCodes, ToCodes, per_channel
from pdqat.export.runtimes import OUTPUT, Session
from pdqat.layers import Network
from pdqat.layers.distances import precise
from pdqat.layers.layer import LayerQuantizers, PrecisionLayer
from pdqat.precision import BitPlan

OTHER_MODEL = "the file was not exported from this run under this plan"
CODE_IMAGES = 500
"""So many images' codes are compared."""
SIDE_BY_SIDE = 50
"""So many at a time are kept of all layers."""


@dataclass(frozen=True)
class Compared:
    """Codes of one kind, and how many of them are not the integer reference's."""

    count: int = 0
    different: int = 0

    @classmethod
    def of(cls, different: Tensor) -> "Compared":
        """From where they differ."""
        return cls(different.numel(), int(different.sum()))

    def __add__(self, other: "Compared") -> "Compared":
        return Compared(self.count + other.count, self.different + other.different)


@dataclass(frozen=True)
class Differences:
    """All codes that were compared, by what is asked of them."""

    exact: Compared = Compared()
    """All must be equal."""
    edge: Compared = Compared()
    """Of inexact channels: hardly any may differ."""
    real: Compared = Compared()
    """Made from real numbers: few may differ."""

    def __add__(self, other: "Differences") -> "Differences":
        return Differences(self.exact + other.exact, self.edge + other.edge, self.real + other.real)


@dataclass(frozen=True)
class Verified:
    """What a runtime made of the images."""

    runtime: str
    images: int
    agreement: float
    """With the simulated model's choice."""
    accuracy: float
    simulated_accuracy: float
    codes: Differences
    outputs_off: float
    """The part of images whose outputs differ from the reference's by more than rounding."""


def code_makers(module: fx.GraphModule) -> list[str]:
    """The operations that make codes."""
    kinds = (RequantizedProduct, SumsToCodes, ToCodes)
    return [name for name, each in module.named_modules() if isinstance(each, kinds)]


class _Following(fx.Interpreter):
    """The integer reference, one operation at a time on the runtime's codes; counts where the two differ."""

    def __init__(self, module: fx.GraphModule, given: dict[str, Tensor]) -> None:
        super().__init__(module)
        self._given = given
        self.codes = Differences()

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operation, its codes replaced by the runtime's."""
        made = super().call_module(target, args, kwargs)
        given = self._given.get(str(target))
        if given is None:
            return made
        if given.shape != made.shape:
            raise InputError(f"{OTHER_MODEL}: {target} makes codes of shape {_shape(given)}, not {_shape(made)}")
        different = given != made
        operation = self.fetch_attr(str(target))
        if isinstance(operation, ToCodes):
            self.codes += Differences(real=Compared.of(different))
        else:
            exact = per_channel(operation.exact, different).expand_as(different)
            self.codes += Differences(Compared.of(different[exact]), Compared.of(different[~exact]))
        return given


class _Recording(fx.Interpreter):
    """The integer reference; keeps what some operations make."""

    def __init__(self, module: fx.GraphModule, kept: set[str]) -> None:
        super().__init__(module)
        self._kept = kept
        self.codes: dict[str, Tensor] = {}

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operation."""
        made = super().call_module(target, args, kwargs)
        if str(target) in self._kept:
            self.codes[str(target)] = made
        return made


@torch.no_grad()
def verify(
    runtime: str,
    session: Session,
    with_codes: Session | None,
    frozen: Frozen | None,
    simulated: Tensor,
    batches: Iterable[tuple[Tensor, Tensor]],
) -> Verified:
    """Run a file on all images; compare outputs and, where a session gives them, codes on the first of them.

    simulated   the simulated model's outputs; they are the reference too of a file that is not in integers
    """
    agree = right = simulated_right = count = off = compared = 0
    codes = Differences()
    for images, labels in batches:
        outputs, wanted = session.run(_array(images)), simulated[count : count + len(labels)]
        if OUTPUT not in outputs:
            raise InputError(f"{OTHER_MODEL}: it has no output {OUTPUT!r}, but {', '.join(outputs)}")
        output = torch.from_numpy(outputs[OUTPUT])
        if output.shape != wanted.shape:
            raise InputError(f"{OTHER_MODEL}: its output has shape {_shape(output)}, not {_shape(wanted)}")
        found, choices = output.argmax(1), wanted.argmax(1)
        agree += int((found == choices).sum())
        right += int((found == labels).sum())
        simulated_right += int((choices == labels).sum())
        if count < CODE_IMAGES:
            if frozen is None or with_codes is None:
                off += _off(output, wanted if frozen is None else frozen.module(images))
            else:
                followed = follow(frozen.module, with_codes, images)
                codes, off = codes + followed.codes, off + _off(followed.output, followed.reference)
            compared += len(labels)
        count += len(labels)
    return Verified(runtime, count, agree / count, right / count, simulated_right / count, codes, off / compared)


@dataclass(frozen=True)
class Followed:
    """A runtime's way through the operations."""

    codes: Differences
    output: Tensor
    reference: Tensor
    """What the reference makes of the runtime's last codes."""


def follow(module: fx.GraphModule, session: Session, images: Tensor) -> Followed:
    """A runtime's codes and outputs beside the reference's."""
    outputs = session.run(_array(images))
    given = {name: torch.from_numpy(outputs[f"codes/{name}"]) for name in code_makers(module)}
    following = _Following(module, given)
    reference = following.run(images)
    return Followed(following.codes, torch.from_numpy(outputs[OUTPUT]), reference)


@torch.no_grad()
def layer_agreement(chosen: Frozen, net: Network, plan: BitPlan, images: Tensor) -> dict[str, float]:
    """Per quantised layer, the part of the codes it reads that integer reference and simulated model have in common.

    Nothing is set right on the way: what differs in one layer is seen in those behind it.
    """
    counts = {layer: Compared() for layer, _ in chosen.reads}
    for some in torch.split(images, SIDE_BY_SIDE):
        reference = _Recording(chosen.module, {operation for _, operation in chosen.reads})
        reference.run(some)
        simulated = _simulated_codes(net, plan, set(counts), some)
        for layer, operation in chosen.reads:
            counts[layer] += Compared.of(reference.codes[operation] != simulated[layer].pop(0))
    return {layer: 1 - each.different / each.count for layer, each in counts.items()}


def _simulated_codes(net: Network, plan: BitPlan, layers: set[str], images: Tensor) -> dict[str, list[Tensor]]:
    """What layers of the simulated model read, call by call."""
    found: dict[str, list[Tensor]] = {name: [] for name in layers}

    def keep(name: str, layer: PrecisionLayer, read: Tensor) -> None:
        view, bits = layer.views[plan.name], plan[name].activation
        assert isinstance(view, LayerQuantizers)
        assert bits is not None
        found[name].append(view.activation.codes(precise(read), bits).integers)

    with ExitStack() as hooks, net.under(plan):
        for name in layers:
            layer = net.model.get_submodule(name)
            hooks.enter_context(
                layer.register_forward_pre_hook(
                    lambda module, args, kwargs, name=name: keep(name, module, *args, *kwargs.values()),
                    with_kwargs=True,
                )
            )
        net(images)
    return found


def _off(output: Tensor, reference: Tensor) -> int:
    """Images whose outputs differ by more than a hundredth of the outputs' spread."""
    near = (output - reference).abs().amax(1) <= 0.01 * reference.std()
    return int((~near).sum())  # not numbers are never near


def _shape(tensor: Tensor) -> str:
    return " x ".join(str(each) for each in tensor.shape[1:])


def _array(images: Tensor) -> np.ndarray:
    return np.ascontiguousarray(images.numpy(), dtype=np.float32)
