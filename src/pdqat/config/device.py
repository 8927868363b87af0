"""Where a run computes: the device, and how many threads."""

import torch

from pdqat.config.train_config import TrainConfig
from pdqat.distributed import local_rank, processes
from pdqat.errors import InputError


def device_of(config: TrainConfig) -> torch.device:
    """The configured device; the configured number of threads is set too."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if processes() == 1:
        return available(config.device)
    device = available(_own_device(config.device))
    if device.type == "cuda":
        torch.cuda.set_device(device)  # by which NCCL knows the process's GPU
    return device


def available(name: str) -> torch.device:
    """The device of that name; raises InputError if this machine has none."""
    try:
        return torch.zeros((), device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} can't be used here ({reason}); use another one, such as cpu") from error


def _own_device(name: str) -> str:
    """One GPU for each process of a machine."""
    if name.startswith("cuda:"):
        raise InputError(f"device {name!r} is one GPU, and there are {processes()} processes: give cuda, one for each")
    return f"cuda:{local_rank()}" if name == "cuda" else name
