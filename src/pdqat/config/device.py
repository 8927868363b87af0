"""Where a run computes: the device, and how many threads."""

import torch

from pdqat.config.train_config import TrainConfig
from pdqat.errors import InputError


def device_of(config: TrainConfig) -> torch.device:
    """The configured device; the configured number of threads is set too."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return available(config.device)


def available(name: str) -> torch.device:
    """The device of that name; raises InputError if this machine has none."""
    try:
        return torch.zeros((), device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} can't be used here ({reason}); use another one, such as cpu") from error
