"""Cell: one training run of a suite, known by what it trains."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pdqat.config.presets import PRESETS, config_of, resolve_config
from pdqat.config.train_config import Method, TrainConfig
from pdqat.errors import InputError
from pdqat.experiments.protocol import Protocol
from pdqat.runs.entries import layer_multipliers
from pdqat.runs.folder import Run

FULL_PRECISION_BITS = 32
MACHINE = ("threads", "device", "amp")
"""What may differ between the machines that train a cell."""


@dataclass(frozen=True)
class Kept:
    """Layers that stay in full precision: those with the largest or smallest multipliers at the end of another cell."""

    base: "Cell"
    count: int
    largest: bool

    def multipliers(self, folder: Path) -> dict[str, float]:
        """The multipliers of the layers that are kept, by name; the base cell has to be finished."""
        run = self.base.run(folder)
        if not self.base.is_finished(folder):
            raise InputError(f"the layers to keep follow from the cell {run.path}: it is not finished, train it first")
        try:
            multipliers = layer_multipliers(run.metrics()[-1])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{run.metrics_file} is damaged: it holds no multipliers of layers") from error
        return dict(sorted(multipliers.items(), key=lambda pair: pair[1], reverse=self.largest)[: self.count])

    def plan(self, folder: Path, bits: int) -> dict[str, str]:
        """The precision of every layer, as a plan, so that those in full precision still use the quantiser's limit."""
        kept = self.multipliers(folder)
        base_plan = next(iter(self.base.run(folder).summary()["plans"].values()))
        return {layer: "full" if layer in kept else str(bits) for layer in base_plan}

    def __str__(self) -> str:
        return f"{self.count}-{'largest' if self.largest else 'smallest'}"


@dataclass(frozen=True)
class Cell:
    """A training run: what is trained. How long and how wide is up to a protocol."""

    method: Method
    bits: int
    seed: int
    tolerance: float | None = None
    """Of the output for `pdqat-output`, of layers for `pdqat-layers`."""
    output_tolerance: float | None = None
    """Of the output for `pdqat-layers`."""
    kept: Kept | None = None
    variant: str = ""
    """A name for what `options` change."""
    options: Mapping[str, Any] = field(default_factory=dict)
    times_as_long: int = 1
    """A factor on the epochs, with the dual rate lowered by as much."""
    starts_from: "Cell | None" = None
    """A finished cell whose best weights this one starts from."""
    taught_by: "Cell | None" = None
    """A finished cell whose best full-precision network outputs are held to."""
    suite: str = ""
    """The one suite that a cell with a recipe belongs to."""
    recipe: str = ""
    """What its suite calls the way of training; cells of the paper's methods have none and are shared by suites."""

    @property
    def name(self) -> str:
        """The name of its folder, unique among all suites: suites share cells."""
        return f"{self.trained}-seed{self.seed}"

    @property
    def trained(self) -> str:
        """The name without the seed: what is trained."""
        parts = [self.suite, self.recipe] if self.recipe else [self.method.value]
        parts += [f"{self.bits}bit"]
        parts += [f"{self.tolerance:g}"] if self.tolerance is not None and not self.recipe else []
        parts += [str(self.kept)] if self.kept is not None else []
        parts += [self.variant] if self.variant else []
        return "-".join(parts)

    @property
    def needs(self) -> "Cell | None":
        """The cell that has to be finished before this one can start."""
        return self.kept.base if self.kept is not None else self.starts_from or self.taught_by

    def run(self, folder: Path) -> Run:
        """Its run folder, which may not exist yet."""
        return Run(folder / "cells" / self.name)

    def is_finished(self, folder: Path) -> bool:
        """Whether it is trained and measured."""
        return self.run(folder).measured_file.exists()

    def config(self, protocol: Protocol, folder: Path) -> TrainConfig:
        """The configuration to train, once the cell that it needs is finished."""
        options = {**protocol.options, "method": self.method.value, "seed": self.seed}
        if self.bits != FULL_PRECISION_BITS:
            options["bits"] = [str(self.bits)]
        if self.method is Method.PDQAT_OUTPUT:
            options["output_tolerance"] = self.tolerance
        if self.method is Method.PDQAT_LAYERS:
            options |= {"layer_tolerance": self.tolerance, "output_tolerance": self.output_tolerance}
        if self.kept is not None:
            options["plan"] = self.kept.plan(folder, self.bits)
        if self.starts_from is not None:
            options["init"] = f"../{self.starts_from.name}/best.pt"  # from its own folder: see train_cell
        if self.taught_by is not None:
            options["teacher"] = f"../{self.taught_by.name}"
        config = resolve_config("paper", {}, {**options, **self.options})
        if self.times_as_long != 1:
            rate = config.dual_rate / self.times_as_long
            config = dataclasses.replace(config, epochs=config.epochs * self.times_as_long, dual_rate=rate)
        return config

    def epochs(self, protocol: Protocol) -> int:
        """The number of epochs that it is trained for."""
        return int({**PRESETS["paper"], **protocol.options, **self.options}["epochs"]) * self.times_as_long

    def damaged(self, folder: Path, what: str) -> InputError:
        """The error to raise when the cell is finished, but its files are not what was written."""
        run = self.run(folder)
        measure = f"{run.measured_file.name} in it to measure it again, or " if run.best.exists() else ""
        return InputError(f"the cell {run.path} is damaged: {what}; remove {measure}the folder to train it again")

    def check(self, protocol: Protocol, folder: Path) -> None:
        """Raise InputError if the cell's folder holds another training than this one, or no longer says which."""
        run = self.run(folder)
        if not run.config_file.exists():
            if self.is_finished(folder):
                raise self.damaged(folder, "it has no config.toml")
            return
        trained, wanted = map(dataclasses.asdict, (config_of(run), self.config(protocol, folder)))
        different = next((key for key in wanted if key not in MACHINE and trained[key] != wanted[key]), None)
        if different is not None:
            raise InputError(
                f"the cell {run.path} was trained with {different} = {trained[different]!r}, but protocol "
                f"{protocol.name!r} has {wanted[different]!r}; give another --folder, or remove the cell"
            )
