"""C folders to test: written from a network, compiled, and compared with the reference by their own self-test."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor, fx, nn

from deployed_networks import images
from pdqat import Network, prepare
from pdqat.deployment.formats.c_folder import write_folder
from pdqat.deployment.formats.c_model import Model
from pdqat.deployment.formats.c_program import Program

STRICT = "-std=c99 -Wall -Wextra -Wconversion -Werror -pedantic"
SANITIZED = "-fsanitize=address,undefined -fno-sanitize-recover=all"
SKIP = "PDQAT_WITHOUT_CLANG"


def small_network() -> Network:
    """A first layer in real numbers, one of 2 bits, a last one in real numbers."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 1)]
    pooled = [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)]
    return prepare(nn.Sequential(*layers, *pooled), images(), 2, quantizer="uniform").eval()


def write(module: fx.GraphModule, inputs: Tensor, folder: Path) -> Model:
    """The folder of a graph, with the first inputs as golden samples."""
    model = Model(Program(module, (inputs[:2],)))
    write_folder(model, inputs, folder)
    return model


def self_test(folder: Path, compiler: str = "gcc", flags: str = "-O0") -> str:
    """What the self-test says; a folder that can't be compiled without a warning fails."""
    command = ["make", "-s", "-B", "-C", str(folder), "selftest", f"CC={compiler}", f"CFLAGS={STRICT} {flags}"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    done = subprocess.run([folder / "selftest"], capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    assert done.returncode == (0 if done.stdout.endswith("\nok\n") else 1)
    return done.stdout


def check(module: fx.GraphModule, inputs: Tensor, folder: Path, compiler: str = "gcc", flags: str = "-O0") -> Model:
    """Every code of every layer and every score of the compiled C are the reference's."""
    model = write(module, inputs, folder)
    assert self_test(folder, compiler, flags).endswith("\nok\n")
    return model


def require(compiler: str) -> None:
    """A test without a compiler fails, unless it is told to be skipped."""
    if shutil.which(compiler) is None:
        sentence = f"this test compiles with {compiler}, which is not installed"
        if os.environ.get(SKIP):
            pytest.skip(f"{sentence} ({SKIP} is set)")
        pytest.fail(f"{sentence}: apt-get install {compiler}, or set {SKIP}=1 to leave these tests out")
