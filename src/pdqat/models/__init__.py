"""Image classifiers to train: plain `nn.Module`s that know nothing of quantisation, built by name."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from pdqat.errors import InputError
from pdqat.models.mobilenet import mobilenet_small
from pdqat.models.preresnet import preresnet, preresnet8, preresnet_small
from pdqat.models.resnet import resnet
from pdqat.process import free_memory

__all__ = ["NAMES", "build", "mobilenet_small", "preresnet", "preresnet8", "preresnet_small", "resnet"]

# Each entry is called with (width, classes, channels).
_MODELS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "preresnet8": preresnet8,
    "preresnet20": partial(preresnet, 20),
    "preresnet32": partial(preresnet, 32),
    "preresnet56": partial(preresnet, 56),
    "preresnet-small": preresnet_small,
    "mobilenet-small": mobilenet_small,
    "resnet20": partial(resnet, 20),
    "resnet32": partial(resnet, 32),
    "resnet56": partial(resnet, 56),
}

NAMES = tuple(_MODELS)
"""What `build` accepts."""

BYTES_A_WEIGHT = 16
"""In a training: the weight, its gradient and Adam's two moments, in float32."""
_SMALLEST_SIDE = 4
"""Two stages with stride 2 leave one pixel of it."""


def build(name: str, width: int, classes: int, image_shape: tuple[int, int, int]) -> nn.Module:
    """The model called `name` for images of shape (channels, height, width).

    `width` multiplies its channels.

    >>> model = build("preresnet-small", width=1, classes=10, image_shape=(1, 8, 8))
    >>> model.head
    Linear(in_features=32, out_features=10, bias=True)
    """
    if name not in _MODELS:
        raise InputError(f"model {name!r} is unknown: choose one of {', '.join(NAMES)}.")
    if classes < 2:
        raise InputError(f"model {name} can't tell {classes} classes apart: there must be at least 2.")
    if len(image_shape) != 3 or image_shape[0] < 1 or min(image_shape[1:]) < _SMALLEST_SIDE:
        raise InputError(
            f"model {name} can't take images of shape {tuple(image_shape)}: the shape is (channels, height, width), "
            f"at least 1 channel and {_SMALLEST_SIDE} x {_SMALLEST_SIDE} pixels, for two stages halve the image."
        )
    _check_memory(name, width, classes, image_shape[0])
    return _MODELS[name](width, classes, image_shape[0])


def _check_memory(name: str, width: int, classes: int, channels: int) -> None:
    """Refuse a network that could not be trained here, before its weights fill the memory."""
    try:
        with torch.device("meta"):
            model = _MODELS[name](width, classes, channels)
    except (RuntimeError, TypeError, OverflowError) as error:  # torch's, of sizes beyond 64 bits
        raise InputError(f"model {name} of width {width} is larger than any machine's memory") from error
    needed = BYTES_A_WEIGHT * sum(parameter.numel() for parameter in model.parameters())
    free = free_memory()
    if free is not None and needed > free:
        raise InputError(
            f"to train model {name} of width {width} takes {needed / 1e9:.0f} GB for its weights, and there are "
            f"{free / 1e9:.0f} GB"
        )
