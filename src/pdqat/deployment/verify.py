"""Verification: a file in the installed runtimes against the integer reference and the simulated model.

Nothing is accepted by a percentage. On the images that are looked at closely, every code and every output of the
runtime has to be *explained*, that is, to lie between two ends:

by the reference    what the integer operation makes of the codes that the runtime has before it: in exact channels one
                    code, in others and behind real numbers what the error of float32 allows (`bounds.reference`)
by the simulated    what the network, as it was trained, can make of the same codes in float32, in any order of its
model               sums, and as far away as inexact channels are (`bounds.simulated`)

The file itself shows no codes. Its outputs lie between the ends behind the codes that the same file shows with codes as
further outputs; where a code on an edge fell on the other side there, between those carried on from the image.

Closely are looked at the first images, and each one for which the file does not choose what the simulated model does.
There both models' scores of the two classes have to lie between the ends carried on from the image: then the choice is
one that rounding can change. How far the scores moved, and how far they could, is shown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pdqat.deployment.agreement import LayerAgreement
from pdqat.deployment.bounds.reference import OTHER_MODEL, Compared, Differences, ReferenceSpans, shape
from pdqat.deployment.bounds.simulated import SimulatedSpans
from pdqat.deployment.bounds.span import Span, within_both
from pdqat.deployment.choices import Choices, choices_of, compare_choices
from pdqat.deployment.deployable import Deployable, on_cpu
from pdqat.deployment.runtimes import Session, output_of
from pdqat.deployment.witness import Seen, Witness
from pdqat.errors import InputError

CLOSE_IMAGES = 500
"""So many images, the first ones, are looked at closely."""
AT_ONCE = 50
"""So many at a time, whose numbers are kept of all layers."""


@dataclass(frozen=True)
class Opened:
    """A file in a runtime."""

    runtime: str
    file: Session
    witness: Witness
    """Shows the codes."""
    in_integers: bool = True
    """Whether it computes as the integer reference does."""


@dataclass(frozen=True)
class Verified:
    """What a runtime made of the images."""

    runtime: str
    images: int
    codes: Differences
    outputs: Compared
    """Images whose outputs were looked at closely; different: those that lie behind other codes than the seen ones."""
    choices: Choices | None
    """None where the targets are no classes."""
    layers: dict[str, float]
    """Per quantised layer, the part of its codes that integer reference and simulated model have in common."""

    @property
    def passes(self) -> bool:
        """Whether all is explained."""
        unexplained = self.codes.unexplained + self.outputs.unexplained
        return not unexplained and (self.choices is None or not self.choices.unexplained)

    @property
    def accuracy(self) -> float | None:
        """Of the file's choices."""
        return None if self.choices is None else self.choices.accuracy

    @property
    def simulated_accuracy(self) -> float | None:
        """Of the simulated model's."""
        return None if self.choices is None else self.choices.simulated_accuracy

    @property
    def agreement(self) -> float | None:
        """The part of choices that are the simulated model's."""
        return None if self.choices is None else 1 - self.choices.differing / self.choices.count


@torch.no_grad()
def verify(model: Deployable, opened: Sequence[Opened], batches: Iterable[tuple[Any, Any]]) -> list[Verified]:
    """Run files in their runtimes, in one pass over the batches."""
    tallies = [_Tally(model, file) for file in opened]
    agreement = LayerAgreement(model) if any(file.in_integers for file in opened) else None
    count = 0
    for inputs, target in batches:
        images = on_cpu(inputs)
        simulated = model.simulated(images)
        close = max(0, min(len(images), CLOSE_IMAGES - count))
        for tally in tallies:
            tally.add(images, target, simulated, close)
        if agreement is not None:
            for some in torch.split(images[:close], AT_ONCE) if close else ():
                agreement.add(some)
        count += len(images)
    if not count:
        raise InputError("there is no batch to verify the file on: `check` takes inputs and targets, such as a loader")
    layers = {} if agreement is None else agreement.parts
    return [replace(tally.verified, layers=layers) for tally in tallies]


class _Tally:
    """What one runtime makes, as it adds up."""

    def __init__(self, model: Deployable, opened: Opened) -> None:
        self._model, self._opened = model, opened
        self._most_off = model.most_off if opened.in_integers else None
        self._furthest = 0.0
        self.verified = Verified(opened.runtime, 0, Differences(), Compared(), None, {})

    def add(self, images: Tensor, target: Any, simulated: Tensor, close: int) -> None:
        """Compare a batch, of which the first `close` images are looked at in any case."""
        output = output_of(self._opened.file, images)
        if output.shape != simulated.shape:
            raise InputError(f"{OTHER_MODEL}: its output has shape {shape(output)}, not {shape(simulated)}")
        labels = choices_of(output, target)
        if labels is None:
            distance = (output - simulated).abs().reshape(len(output), -1).amax(1)
            beyond = ~(distance <= self._furthest)  # also what is not a number
            self._furthest = max(self._furthest, float(distance.nan_to_num(torch.inf).max()))
        else:
            beyond = ~_all(output.argmax(1) == simulated.argmax(1))
        if not self.verified.passes:
            beyond = torch.zeros_like(beyond)  # it has failed: no need to explain what follows
        rows = torch.nonzero(beyond | (torch.arange(len(images)) < close))[:, 0]
        seen = self._opened.witness.look(images) if len(rows) else None
        verified = replace(self.verified, images=self.verified.images + len(images))
        if labels is not None:
            ends = self._from_image(images[beyond]) if bool(beyond.any()) else None
            compared = compare_choices(output, simulated, labels, beyond, ends)
            verified = replace(verified, choices=compared if verified.choices is None else verified.choices + compared)
        for some in torch.split(rows, AT_ONCE) if seen is not None else ():
            codes, outputs = self._explained(images[some], seen.rows(some), output[some])  # type: ignore[union-attr]
            verified = replace(verified, codes=verified.codes + codes, outputs=verified.outputs + outputs)
        self.verified = verified

    def _explained(self, images: Tensor, seen: Seen, output: Tensor) -> tuple[Differences, Compared]:
        """Codes that were seen and outputs of the file, each beside its ends."""
        simulated = SimulatedSpans(self._model.net, self._model.plan, self._most_off, seen.layers)
        ends: Span = simulated.run(images)
        codes = Differences(simulated=simulated.codes)
        if self._opened.in_integers:
            reference = ReferenceSpans(self._model.frozen.module, seen.operations)
            ends = within_both(ends, reference.run(images))
            codes += reference.codes
        same_codes = _all(ends.holds(output))
        explained = same_codes.clone()
        if not bool(same_codes.all()):
            explained[~same_codes] = _all(self._from_image(images[~same_codes]).holds(output[~same_codes]))
        if seen.output is not None:
            explained &= _all(ends.holds(seen.output))
        return codes, Compared.of(~same_codes, explained)

    def _from_image(self, images: Tensor) -> Span:
        """The ends of outputs, carried on from the image."""
        spans = [
            SimulatedSpans(self._model.net, self._model.plan, self._most_off).run(some)
            for some in torch.split(images, AT_ONCE)
        ]
        return Span(torch.cat([span.low for span in spans]), torch.cat([span.high for span in spans]))


def _all(explained: Tensor) -> Tensor:
    return explained.reshape(len(explained), -1).all(1)
