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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pdqat.batches import pairs
from pdqat.deployment.agreement import LayerAgreement
from pdqat.deployment.bounds.reference import OTHER_MODEL, Compared, Differences, ReferenceSpans, shape
from pdqat.deployment.bounds.simulated import SimulatedSpans
from pdqat.deployment.bounds.span import Span, within_both
from pdqat.deployment.choices import Choices, class_dim, compare_choices
from pdqat.deployment.deployable import Deployable, Samples
from pdqat.deployment.integer.frozen import LayerCodes
from pdqat.deployment.integer.names import OUTPUT
from pdqat.deployment.processors import kind_of_processor, kinds_it_holds_on
from pdqat.deployment.runtimes import Session, outputs_of
from pdqat.deployment.witness import Witness
from pdqat.errors import InputError

Outputs = Mapping[str, Tensor]
"""By name; one is called `output`."""
CLOSE_IMAGES = 500
"""So many images, the first ones, are looked at closely unless told otherwise."""
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
    processor: str = ""
    """What this one multiplies bytes with."""
    holds_on: tuple[str, ...] = ()
    """The kinds of processors whose sums are the same: with VNNI, without VNNI. None for a file of real numbers."""

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
def verify(
    model: Deployable, opened: Sequence[Opened], batches: Iterable[tuple[Any, Any]], close: int | None = None
) -> list[Verified]:
    """Run files in their runtimes, in one pass over the batches; look closely at the first `close` images."""
    wanted = CLOSE_IMAGES if close is None else close
    tallies = [_Tally(model, file) for file in opened]
    agreement = LayerAgreement(model) if any(file.in_integers for file in opened) else None
    count = 0
    for inputs, target in pairs(batches):
        samples = model.samples(inputs)
        simulated = model.simulated_outputs(samples.inputs)
        to_look_at = max(0, min(len(samples), wanted - count))
        for tally in tallies:
            tally.add(samples, target, simulated, to_look_at)
        if agreement is not None:
            for some in samples.rows(slice(to_look_at)).split(AT_ONCE):
                agreement.add(some.inputs)
        count += len(samples)
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
        kinds = tuple(kinds_it_holds_on(model.frozen.module)) if opened.in_integers else ()
        self.verified = Verified(
            opened.runtime, 0, Differences(), Compared(), None, {}, processor=kind_of_processor(), holds_on=kinds
        )

    def add(self, samples: Samples, target: Any, simulated: Outputs, close: int) -> None:
        """Compare a batch, of which the first `close` samples are looked at in any case."""
        outputs = outputs_of(self._opened.file, samples.read, simulated)
        for name, output in outputs.items():
            if output.shape != simulated[name].shape:
                shapes = f"{shape(output)}, not {shape(simulated[name])}"
                raise InputError(f"{OTHER_MODEL}: its output {name!r} has shape {shapes}")
        classes = class_dim(outputs[OUTPUT], target)
        beyond = self._moved(outputs, simulated, classes)
        if not self.verified.passes:
            beyond = torch.zeros_like(beyond)  # it has failed: no need to explain what follows
        rows = torch.nonzero(beyond | (torch.arange(len(samples)) < close))[:, 0]
        verified = replace(self.verified, images=self.verified.images + len(samples))
        if classes is not None:
            ends = self._from_input(samples.rows(beyond))[OUTPUT] if bool(beyond.any()) else None
            compared = compare_choices(
                outputs[OUTPUT].movedim(classes, 1),
                simulated[OUTPUT].movedim(classes, 1),
                target.cpu().long(),
                beyond,
                None if ends is None else ends.through(lambda end: end.movedim(classes, 1)),
            )
            verified = replace(verified, choices=compared if verified.choices is None else verified.choices + compared)
        for some in torch.split(rows, AT_ONCE) if len(rows) else ():
            codes, explained = self._explained(samples.rows(some), _rows(outputs, some))
            verified = replace(verified, codes=verified.codes + codes, outputs=verified.outputs + explained)
        self.verified = verified

    def _moved(self, outputs: Outputs, simulated: Outputs, classes: int | None) -> Tensor:
        """The samples to look at: those with another choice, or whose outputs are further off than any before."""
        if classes is not None:
            return ~_all(outputs[OUTPUT].argmax(classes) == simulated[OUTPUT].argmax(classes))
        distances = [
            (output.double() - simulated[name].double()).abs().reshape(len(output), -1).amax(1)
            for name, output in outputs.items()
        ]
        distance = torch.stack(distances).nan_to_num(torch.inf).amax(0)
        beyond = ~(distance <= self._furthest)
        self._furthest = max(self._furthest, float(distance.max()))
        return beyond

    def _explained(self, samples: Samples, outputs: Outputs) -> tuple[Differences, Compared]:
        """Codes that are seen and outputs of the file, each beside its ends."""
        seen, read = self._opened.witness.look(samples), samples.read.values()
        simulated = self._simulated_spans(seen.layers)
        ends = _by_name(simulated.run(*read))
        codes = Differences(simulated=simulated.codes)
        if self._opened.in_integers:
            reference = ReferenceSpans(self._model.frozen.module, seen.operations)
            made = _by_name(reference.run(*read))
            ends = {name: within_both(end, made[name]) for name, end in ends.items()}
            codes += reference.codes
        same_codes = _lie_within(outputs, ends)
        explained = same_codes.clone()
        if not bool(same_codes.all()):
            others = ~same_codes
            explained[others] = _lie_within(_rows(outputs, others), self._from_input(samples.rows(others)))
        if seen.outputs:
            explained &= _lie_within(seen.outputs, ends)
        return codes, Compared.of(~same_codes, explained)

    def _simulated_spans(self, given: LayerCodes | None) -> SimulatedSpans:
        biases_off = self._model.frozen.biases_off if self._opened.in_integers else {}
        return SimulatedSpans(self._model.followed.module, self._model.plan, self._most_off, given, biases_off)

    def _from_input(self, samples: Samples) -> dict[str, Span]:
        """The ends of outputs, carried on from the input."""
        parts = [_by_name(self._simulated_spans(None).run(*some.read.values())) for some in samples.split(AT_ONCE)]
        return {
            name: Span(torch.cat([part[name].low for part in parts]), torch.cat([part[name].high for part in parts]))
            for name in parts[0]
        }


def _by_name(made: Any) -> dict[str, Span]:
    """What spans of a graph are, by the names of its outputs; what is no real number is known."""
    named = made if isinstance(made, dict) else {OUTPUT: made}
    return {name: Span.of(end) if isinstance(end, Tensor) else end for name, end in named.items()}


def _lie_within(outputs: Outputs, ends: Mapping[str, Span]) -> Tensor:
    """The samples all of whose outputs lie between their ends."""
    return torch.stack([_all(ends[name].holds(output)) for name, output in outputs.items()]).all(0)


def _rows(outputs: Outputs, index: Tensor) -> Outputs:
    return {name: output[index] for name, output in outputs.items()}


def _all(explained: Tensor) -> Tensor:
    return explained.reshape(len(explained), -1).all(1)
