"""Own code for runs that several processes train, of which one can be killed within an epoch."""

from pathlib import Path

OWN_CODE = '''
import os
import signal
from pathlib import Path

import torch
from torch import nn


class Deadly(list):
    """Batches whose last process is killed, once, where the second epoch begins, if there is a file named deadly."""

    passes = 0

    def __iter__(self):
        self.passes += 1
        is_last = int(os.environ.get("RANK", 0)) == int(os.environ.get("WORLD_SIZE", 0)) - 1
        if self.passes == 3 and is_last and Path("deadly").exists():
            Path("deadly").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__iter__()


def data():
    generator = torch.Generator().manual_seed(0)
    batches = [(torch.rand(9, 6, generator=generator), torch.arange(9) % 3) for _ in range(4)]
    return {"train": Deadly(batches[:3]), "validation": batches[3:]}


def model():
    layers = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)]
    return nn.Sequential(*layers)
'''
OWN = ["--data", "mine:data", "--model", "mine:model"]
TRAIN = ["train", *OWN, "--epochs", "3", "--norm-batches", "0", "--lr", "0.001"]


def write_own_code(folder: Path) -> None:
    (folder / "mine.py").write_text(OWN_CODE)


def let_one_die(folder: Path) -> None:
    """The last process, when the second epoch begins; not when it is started again."""
    (folder / "deadly").touch()
