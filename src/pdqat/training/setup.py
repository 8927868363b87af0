"""Setup: data, network and objective of a configuration, as training and every later command need them."""

import dataclasses
from pathlib import Path
from typing import Any

import torch

from pdqat import data, models
from pdqat.data import Batches
from pdqat.errors import InputError
from pdqat.layers import prepare
from pdqat.precision import BitPlan, Precision
from pdqat.training.carry import carry_over
from pdqat.training.config import NormChoice, TrainConfig
from pdqat.training.files import load_weights
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
        self.device = _available(config.device)
        path = Path(config.data_path) if config.data_path else None
        self.data = _on(self.device, data.load(config.data, path, config.image_size))
        training, self._validation = data.split(self.data, config.validation, config.seed)
        self._training = training[: config.train_images]
        if config.train_images is not None and config.train_images > len(training):
            raise InputError(f"train_images is {config.train_images}, but there are only {len(training)} to train on")
        if len(self._training) < 2:
            raise InputError(f"there is only {len(self._training)} image to train on; training needs at least 2")
        self._training_part = self.data.images[self._training], self.data.labels[self._training]
        torch.manual_seed(config.seed)
        channels, height, width = self.data.images.shape[1:]
        model = models.build(config.model, config.width, len(self.data.classes), (channels, height, width))
        if config.init is not None:
            _load_into(model, Path(config.init))
        model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        example, _ = next(iter(self._batches(self._training[:EXAMPLE_IMAGES], EXAMPLE_IMAGES)))
        self.net = prepare(
            model,
            example,
            [BitPlan(MIXED, {layer: Precision.parse(bits) for layer, bits in config.plan.items()})]
            if config.plan
            else config.bits,
            layers=config.layers,
            quantizer=config.quantizer,
            tied_norms=config.norm is NormChoice.TIED,
        )
        self.objective = make_objective(self.net, config).to(self.device)
        if config.carry and config.init is not None:
            carry_over(self.net, self.objective, Path(config.init))

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
        generator = torch.Generator().manual_seed(self.epoch_seed(epoch))
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
        """Put a checkpoint's weights and multipliers in place."""
        try:
            self.net.load_state_dict(checkpoint["model"])
            state = {f"net.{key}": value for key, value in self.net.state_dict().items()}
            self.objective.load_state_dict({**state, **checkpoint["duals"]})
        except (KeyError, RuntimeError, TypeError, AttributeError) as error:
            raise InputError(f"the checkpoint {path} does not fit the run's configuration") from error

    def _batches(self, chosen: torch.Tensor, size: int = EVALUATION_BATCH) -> Batches:
        images, labels = self.data.images[chosen], self.data.labels[chosen]
        return Batches(images, labels, self.data.mean, self.data.std, size)


def _available(name: str) -> torch.device:
    try:
        return torch.zeros((), device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} can't be used here ({reason}); use another one, such as cpu") from error


def _on(device: torch.device, found: data.Dataset) -> data.Dataset:
    """All images in the device's memory: they are bytes, and there they are shuffled and augmented too."""
    tensors = ("images", "labels", "test_images", "test_labels")
    return dataclasses.replace(found, **{name: getattr(found, name).to(device) for name in tensors})


def _load_into(model: torch.nn.Module, path: Path) -> None:
    try:
        model.load_state_dict(load_weights(path))
    except RuntimeError as error:
        complaint = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise InputError(f"the weights in {path} do not fit the model: {complaint}") from error
