"""Verification: a file in the installed runtimes against the integer reference and the simulated model.

Four questions, on the same images:

exact       are the runtime's codes those of the integer reference, bit for bit? Each operation is asked on the codes
            that the runtime has before it. Codes made from real numbers (behind a layer in full precision) are counted
            apart: float32 sums of another order may round another way
outputs     are the file's outputs those of the reference, up to rounding?
agreement   does the file choose the same class as the simulated model?
accuracy    does it choose the right one?
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from pdqat.export.freeze import Frozen
from pdqat.export.operations import RequantizedProduct, SumsToCodes, ToCodes
from pdqat.export.runtimes import OUTPUT, Session
from pdqat.layers import Network
from pdqat.precision import BitPlan

CODE_IMAGES = 500
"""So many images' codes are compared."""


@dataclass(frozen=True)
class Verified:
    """What a runtime made of the images."""

    runtime: str
    images: int
    agreement: float
    """With the simulated model's choice."""
    accuracy: float
    simulated_accuracy: float
    codes: int
    """Compared with the integer reference."""
    different: int
    """Of them, not equal; 0 is exact."""
    real_codes: int
    """Made from real numbers."""
    real_different: int
    outputs_off: float
    """The part of images whose outputs differ from the reference's by more than rounding."""
    inexact_channels: int
    """Whose integers may lie on the edge of two codes."""


def code_makers(module: fx.GraphModule) -> list[str]:
    """The operations that make codes."""
    kinds = (RequantizedProduct, SumsToCodes, ToCodes)
    return [name for name, each in module.named_modules() if isinstance(each, kinds)]


class _Following(fx.Interpreter):
    """The integer reference, one operation at a time on the runtime's codes; counts where the two differ."""

    def __init__(self, module: fx.GraphModule, given: dict[str, Tensor]) -> None:
        super().__init__(module)
        self._given = given
        self.codes = self.different = self.real_codes = self.real_different = 0

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operation, its codes replaced by the runtime's."""
        made = super().call_module(target, args, kwargs)
        given = self._given.get(str(target))
        if given is None:
            return made
        different = int((given != made).sum())
        if isinstance(self.fetch_attr(str(target)), ToCodes):
            self.real_codes += given.numel()
            self.real_different += different
        else:
            self.codes += given.numel()
            self.different += different
        return given


@torch.no_grad()
def verify(
    runtime: str,
    session: Session,
    with_codes: Session | None,
    chosen: Frozen,
    net: Network,
    plan: BitPlan,
    batches: Iterable[tuple[Tensor, Tensor]],
) -> Verified:
    """Run a file on all images; compare codes on the first of them, where a session gives them."""
    agree = right = simulated_right = count = off = compared = 0
    counted = [0, 0, 0, 0]
    for images, labels in batches:
        output = torch.from_numpy(session.run(_array(images))[OUTPUT])
        found = output.argmax(1)
        with net.under(plan):
            simulated = net(images).argmax(1)
        agree += int((found == simulated).sum())
        right += int((found == labels).sum())
        simulated_right += int((simulated == labels).sum())
        if count < CODE_IMAGES:
            off += _off(output, chosen.module(images))
            compared += len(labels)
        if with_codes is not None and count < CODE_IMAGES:
            more = count_differences(chosen.module, with_codes, images[: CODE_IMAGES - count])
            counted = [sum(pair) for pair in zip(counted, more, strict=True)]
        count += len(labels)
    inexact = sum(each.channels - each.exact for each in chosen.folded)
    codes, different, real_codes, real_different = counted
    return Verified(
        runtime,
        count,
        agree / count,
        right / count,
        simulated_right / count,
        codes,
        different,
        real_codes,
        real_different,
        off / compared,
        inexact,
    )


def count_differences(module: fx.GraphModule, session: Session, images: Tensor) -> tuple[int, int, int, int]:
    """Codes, those that differ from the reference; codes made from real numbers, and those of them that differ."""
    outputs = session.run(_array(images))
    given = {name: torch.from_numpy(outputs[f"codes/{name}"]) for name in code_makers(module)}
    following = _Following(module, given)
    following.run(images)
    return following.codes, following.different, following.real_codes, following.real_different


def _off(output: Tensor, reference: Tensor) -> int:
    """Images whose outputs differ by more than a hundredth of the outputs' spread."""
    return int(((output - reference).abs().amax(1) > 0.01 * reference.std()).sum())


def _array(images: Tensor) -> np.ndarray:
    return np.ascontiguousarray(images.numpy(), dtype=np.float32)
