"""What an export found, as data and as a few lines to read."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pdqat.deployment.bounds.reference import Compared
from pdqat.deployment.footprint import Footprint
from pdqat.deployment.integer.assembly import Folded
from pdqat.deployment.verify import Verified
from pdqat.terminal import as_text, new_table, percent


@dataclass(frozen=True)
class ExportReport:
    """A file that was written, and how it was verified. `print(report)` shows it."""

    path: Path
    bytes: int
    """Of all of its files."""
    float32_bytes: int
    """Of the network's weights in float32."""
    verified: list[Verified]
    """One for every runtime."""
    folded: list[Folded]
    """Every rounding that was folded into integers, with its channels and the exact ones of them."""
    real_layers: list[str]
    """Layers that compute in real numbers."""
    in_integers: bool
    """Whether nothing else does either: what the file computes are whole numbers, from the input to the scores."""
    footprint: Footprint | None = None
    """Of a format for machines without a runtime."""

    @property
    def layers(self) -> dict[str, float]:
        """Per quantised layer, the part of its codes that integer reference and simulated model have in common."""
        return self.verified[0].layers

    def __str__(self) -> str:
        lines = []
        if self.folded:
            channels = sum(rounding.channels for rounding in self.folded)
            exact = sum(rounding.exact for rounding in self.folded)
            lines += [f"{exact} of {channels} channels give the codes of float32 for every integer within reach"]
        if self.in_integers:
            lines += ["whole numbers from the input to the scores"]
        elif self.layers:
            lines += [f"in real numbers: {', '.join(self.real_layers) or 'no layer, but what lies between or behind'}"]
        lines += [show_verified(self.verified)]
        size = self.bytes
        if self.footprint is not None:
            lines += [str(self.footprint)]
            size = self.footprint.constants
        part = f"{size / self.float32_bytes:.1%} of the {self.float32_bytes:,} of the weights in float32"
        return "\n".join([*lines, f"{self.path}: {size:,} bytes, {part}"])


def show_verified(verified: list[Verified]) -> str:
    """A small table, a row for every runtime, and below it what differs."""
    table = new_table()
    for heading in ("runtime", "verified", "images", "codes", "differ", "choices differ", "accuracy", "simulated"):
        table.add_column(heading, justify="left" if heading in ("runtime", "verified") else "right", no_wrap=True)
    for result in verified:
        codes, choices = result.codes, result.choices
        kinds = [codes.exact, codes.edge, codes.real] if result.layers else [codes.simulated]
        table.add_row(
            result.runtime,
            "pass" if result.passes else "FAIL",
            f"{result.images:,}",
            f"{sum(kind.count for kind in kinds):,}",
            f"{sum(kind.different for kind in kinds):,}",
            "-" if choices is None else f"{choices.differing:,}",
            "-" if choices is None else percent(choices.accuracy),
            "-" if choices is None else percent(choices.simulated_accuracy),
        )
    notes = [f"{result.runtime}: {describe(result)}" for result in verified]
    return as_text([table, *notes, *_layers(verified[0].layers), *_processors(verified[0])])


def verified_entry(result: Verified) -> dict[str, Any]:
    """What a runtime made of a file, as plain values: all that was counted, and what follows from it."""
    return {
        **asdict(result),
        "passes": result.passes,
        "agreement": result.agreement,
        "accuracy": result.accuracy,
        "simulated_accuracy": result.simulated_accuracy,
        "note": describe(result),
    }


def describe(result: Verified) -> str:
    """What differs, and how much of it is explained, in one line."""
    codes, choices = result.codes, result.choices
    kinds = (
        (codes.exact, "codes of exact channels differ from the reference"),
        (codes.edge, "codes of inexact channels differ from the reference"),
        (codes.real, "codes behind real numbers differ from the reference"),
        (codes.simulated, "codes differ from what the simulated model makes of the same codes"),
        (result.outputs, "images have outputs behind other codes than those seen"),
    )
    notes = [f"{kind.different:,} of {kind.count:,} {what}" for kind, what in kinds if kind.different]
    if choices is not None and choices.differing:
        notes.append(
            f"{choices.differing:,} of {choices.count:,} choices differ from the simulated model's, their scores moved "
            f"by up to {choices.moved:.2g} where rounding can move them by {choices.bound:.2g}"
        )
    unexplained = [f"{kind.unexplained:,} {what}" for kind, what in _unexplained(result) if kind.unexplained]
    if choices is not None and choices.unexplained:
        unexplained.append(f"{choices.unexplained:,} choices")
    ending = f"not explained by rounding: {', '.join(unexplained)}" if unexplained else "all is explained by rounding"
    return "; ".join([*(notes or ["no code differs"]), ending])


def _unexplained(result: Verified) -> list[tuple[Compared, str]]:
    codes = result.codes
    from_reference = codes.exact + codes.edge + codes.real
    return [
        (from_reference, "codes by the reference"),
        (codes.simulated, "codes by the simulated model"),
        (result.outputs, "images' outputs"),
    ]


def _processors(result: Verified) -> list[str]:
    if not result.holds_on:
        return []
    kinds = " and ".join(result.holds_on)
    return [f"verified on this processor ({result.processor}); no sum of products saturates on processors {kinds}"]


def _layers(layers: dict[str, float]) -> list[str]:
    if not layers:
        return []
    equal = sum(part == 1 for part in layers.values())
    least = min(layers, key=lambda name: layers[name])
    worst = f"; {least} the fewest, {layers[least]:.4%}" if layers[least] < 1 else ""
    return [f"{equal} of {len(layers)} layers read the codes of the simulated model in the reference{worst}"]
