"""Setup: data, network and objective of a configuration, as training and every later command need them."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdqat import data, models
from pdqat.allocation import Budget, allocate
from pdqat.allocation.sizes import LayerSize, layer_sizes
from pdqat.data import Batches
from pdqat.errors import InputError
from pdqat.lagrangian import Lagrangian
from pdqat.layers import prepare
from pdqat.precision import MAX_BITS, BitPlan, Precision
from pdqat.rules import resolve
from pdqat.training.carry import carry_over
from pdqat.training.checkpoints import load_checkpoint, load_weights, plain_weights
from pdqat.training.config import NormChoice, TrainConfig
from pdqat.training.objectives import make_objective

EVALUATION_BATCH = 500
EXAMPLE_IMAGES = 64
MIXED = "mixed"
"""What the view of a plan by layers is called."""


class Setup:
    """What a configuration stands for. Building it twice gives the same initial weights."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        self.device = available(config.device)
        path = Path(config.data_path) if config.data_path else None
        self.data = _on(self.device, data.load(config.data, path, config.image_size))
        training, self._validation = data.split(self.data, config.validation, config.seed)
        self._training = training[: config.train_images]
        if config.train_images is not None and config.train_images > len(training):
            raise InputError(f"train_images is {config.train_images}, but there are only {len(training)} to train on")
        if len(self._training) < 2:
            raise InputError(f"there is only {len(self._training)} image to train on; training needs at least 2")
        self._training_part = self.data.images[self._training], self.data.labels[self._training]
        init = None if config.init is None else Path(config.init)
        plan: Mapping[str, str] = config.plan
        self._objective_config = config
        if config.budget is not None:
            self.build(plan)
            plan = self.plan.as_text()  # by layers from the start, since it will change
            self._objective_config = dataclasses.replace(config, output_tolerance=self._output_tolerance())
        self.build(plan, None if init is None else load_weights(init), f"the weights in {init}")
        if config.carry and init is not None:
            carry_over(self.net, self.objective, load_checkpoint(init), f"the checkpoint {init}")

    def build(self, plan: Mapping[str, str], weights: dict[str, Tensor] | None = None, source: str = "") -> None:
        """Make network and objective, under a plan by layers if one is given."""
        config = self.config
        torch.manual_seed(config.seed)
        channels, height, width = self.data.images.shape[1:]
        model = models.build(config.model, config.width, len(self.data.classes), (channels, height, width))
        if weights is not None:
            _load_into(model, weights, source)
        model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.net = prepare(
            model,
            self._example(),
            [BitPlan(MIXED, {layer: Precision.parse(bits) for layer, bits in plan.items()})] if plan else config.bits,
            layers={} if plan else config.layers,
            quantizer=config.quantizer,
            tied_norms=config.norm is NormChoice.TIED,
            integer_sums=config.integer_sums,
        )
        self.objective = make_objective(self.net, self._objective_config).to(self.device)

    def change_plan(self, plan: Mapping[str, Precision]) -> None:
        """Give some layers another precision; weights, low-precision norms and multipliers go on."""
        plan = {**self.plan.precisions, **plan}
        before = {"model": self.net.state_dict(), "duals": self.objective.state_dict()}
        self.build({layer: str(bits) for layer, bits in plan.items()}, plain_weights(before["model"]))
        carry_over(self.net, self.objective, before, "the model so far")

    @property
    def plan(self) -> BitPlan:
        """Of a configuration with one plan."""
        (plan,) = self.net.plans.values()
        return plan

    def epoch_seed(self, epoch: int) -> int:
        """Different for every epoch of every seed."""
        return self.config.seed * 1_000_003 + epoch

    def training_batches(self, epoch: int) -> Batches:
        """Shuffled and augmented, as decided by seed and epoch."""
        return Batches(
            *self._training_part,
            self.data.mean,
            self.data.std,
            min(self.config.batch_size, len(self._training)),
            augmentation=self.data.augmentation if self.config.augment else None,
            generator=torch.Generator().manual_seed(self.epoch_seed(epoch)),
            drop_last=True,
        )

    def slack_batches(self, epoch: int) -> Batches:
        """Training images for a fresh evaluation of the slacks, without augmentation."""
        count = min(self.config.dual_samples or len(self._training), len(self._training))
        generator = torch.Generator().manual_seed(~self.epoch_seed(epoch))  # not those that the epoch trains on first
        chosen = torch.randperm(len(self._training), generator=generator)[:count]
        return self._batches(self._training[chosen])

    def training_images(self, count: int) -> Batches:
        """The first training images, without augmentation."""
        return self._batches(self._training[:count])

    def validation_batches(self) -> Batches:
        """The held-out part of the training images."""
        return self._batches(self._validation)

    def test_batches(self) -> Batches:
        """The test images."""
        return Batches(self.data.test_images, self.data.test_labels, self.data.mean, self.data.std, EVALUATION_BATCH)

    def load(self, checkpoint: dict[str, Any], path: Path) -> None:
        """Put a checkpoint's weights and multipliers in place; a run with a budget has a plan there too."""
        try:
            if self.config.budget is not None and checkpoint["plan"] != self.plan.as_text():
                self.build(checkpoint["plan"])
            self.net.load_state_dict(checkpoint["model"])
            state = {f"net.{key}": value for key, value in self.net.state_dict().items()}
            self.objective.load_state_dict({**state, **checkpoint["duals"]})
        except (KeyError, RuntimeError, TypeError, AttributeError) as error:
            raise InputError(f"the checkpoint {path} does not fit the run's configuration") from error

    def budget_used(self, budget: Budget) -> Budget:
        """What the plan takes, of layers whose bits are chosen under a budget."""
        return budget.used_by_all(self.plan.precisions, self.budget_sizes())

    def check_budget(self) -> None:
        """Raise InputError if no plan fits into the configured budget, or a plan could not be trained."""
        config = self.config
        if config.budget is None:
            return
        sizes = self.budget_sizes()
        found = self.budget_choices()
        if not any(self.plan[layer].weight for layer in found):
            raise InputError("a budget is for layers whose weights are quantised, and the plan to start with has none")
        if all(len(each) == 1 for each in found.values()):
            raise InputError("the precision of every layer is fixed by layers: the budget leaves nothing to choose")
        allocate({layer: dict.fromkeys(each, 0.0) for layer, each in found.items()}, sizes, Budget.parse(config.budget))
        lowest = {layer: min(each, key=lambda bits: bits.weight or MAX_BITS) for layer, each in found.items()}
        assert isinstance(self.objective, Lagrangian)
        for each in self.objective.requirements:
            plan = BitPlan(MIXED, {**self.plan.precisions, **lowest})
            self.objective.duals.check_relaxation(each.resolve(self.net, plan))

    def _output_tolerance(self) -> float:
        """Of the starting plan: what the model is for does not change with the bits of single layers."""
        return next(each.tolerance for each in self.objective.constraints if each.kind == "output")

    def budget_choices(self) -> dict[str, list[Precision]]:
        """What each layer that the budget counts may be given; full precision in the starting plan stays."""
        counted = self.budget_sizes()
        quantized = [layer for layer in counted if self.plan[layer].weight is not None]
        return {layer: [self.plan[layer]] for layer in counted} | self.config.budget_choices(quantized)

    def budget_sizes(self) -> dict[str, LayerSize]:
        """Of the plan's layers, but for those that `layers` of the configuration leaves in full precision."""
        sizes = layer_sizes(self.net.eval(), self._example())
        rules = {pattern: Precision.parse(bits).weight is None for pattern, bits in self.config.layers.items()}
        return {layer: size for layer, size in sizes.items() if not resolve(rules, layer, False)}

    def _example(self) -> Tensor:
        return next(iter(self._batches(self._training[:EXAMPLE_IMAGES], EXAMPLE_IMAGES)))[0]

    def _batches(self, chosen: Tensor, size: int = EVALUATION_BATCH) -> Batches:
        images, labels = self.data.images[chosen], self.data.labels[chosen]
        return Batches(images, labels, self.data.mean, self.data.std, size)


def available(name: str) -> torch.device:
    """The device of that name; raises InputError if this machine has none."""
    try:
        return torch.zeros((), device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} can't be used here ({reason}); use another one, such as cpu") from error


def _on(device: torch.device, found: data.Dataset) -> data.Dataset:
    """All images in the device's memory: they are bytes, and there they are shuffled and augmented too."""
    tensors = ("images", "labels", "test_images", "test_labels")
    return dataclasses.replace(found, **{name: getattr(found, name).to(device) for name in tensors})


def _load_into(model: torch.nn.Module, weights: dict[str, Tensor], source: str) -> None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        complaint = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise InputError(f"{source} do not fit the model: {complaint}") from error
