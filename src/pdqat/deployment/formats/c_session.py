"""A C folder on this machine: compiled as a shared library, and run on many samples."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from pdqat.deployment.formats.c_kernels import source
from pdqat.deployment.formats.c_model import Model
from pdqat.deployment.integer.names import INPUT, OUTPUT
from pdqat.deployment.runtimes import Arrays
from pdqat.errors import InputError

FLAGS = ("-std=c99", "-O3", "-shared", "-fPIC")
RUNTIME = "c"


def compiler() -> str:
    """The one of this machine: $CC, or cc."""
    name = os.environ.get("CC", "cc")
    if shutil.which(name) is None:
        raise InputError(
            f"the format c is verified by running it, but there is no compiler {name!r}: install gcc or clang"
        )
    return name


def compiled(folder: Path, library: Path, observed: bool, flags: Sequence[str] = FLAGS) -> Path:
    """The folder's model with a function that runs many samples."""
    harness = library.with_suffix(".c")
    harness.write_text(source("harness.c"))
    command = [compiler(), *flags, f"-I{folder.resolve()}", *(["-DMODEL_OBSERVED"] if observed else [])]
    command += [str(folder.resolve() / "model.c"), str(harness), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = next((line for line in done.stderr.splitlines() if "error" in line), "it gave no reason")
        raise InputError(f"{command[0]} can't compile {folder / 'model.c'}: {told.strip()}")
    return library


class Library:
    """A compiled folder. One that shows its codes has them as further outputs, called codes/OPERATION.

    scratch     a folder for what is compiled
    """

    def __init__(self, model: Model, folder: Path, scratch: Path, observed: bool, flags: Sequence[str] = FLAGS) -> None:
        self.inputs = [INPUT]
        self._model = model
        self._observed = model.layers if observed else []
        self._starts = np.cumsum([0, *(layer.size for layer in self._observed)]).astype(np.int32)
        library = scratch / ("codes.so" if observed else "plain.so")
        self._run = ctypes.CDLL(str(compiled(folder, library, observed, flags))).run_samples
        self._run.argtypes = [*[ctypes.c_void_p] * 2, ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int]
        self._run.restype = ctypes.c_int

    def run(self, inputs: Arrays) -> Arrays:
        """The network's output, sample by sample."""
        program = self._model.program
        numbers = inputs[INPUT].astype(np.float32)
        made: dict[str, np.ndarray] = {}
        if program.input_codes is not None:
            name, operation = program.input_codes
            codes = operation(torch.from_numpy(numbers)).numpy()
            made[f"codes/{name}"] = codes
            numbers = codes.astype(np.int8 if operation.low < 0 else np.uint8)
        scores, seen = self.run_numbers(numbers)
        last = program.last_product
        real = scores if last is None else (scores * np.float64(last.unit)).astype(np.float32)
        made |= {f"codes/{name}": codes for name, codes in seen.items()}
        return made | {OUTPUT: real.reshape(len(numbers), *program.output_shape)}

    def run_numbers(self, numbers: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The scores as model_run gives them, and codes by operation."""
        program, numbers = self._model.program, np.ascontiguousarray(numbers)
        kind = np.float32 if program.last_product is None else np.int32
        scores = np.empty((len(numbers), program.output.size), kind)
        size = int(self._starts[-1])
        seen = np.empty((len(numbers), size), np.int32)
        given, made, codes = (array.ctypes.data for array in (numbers, scores, seen))
        if self._run(given, made, len(numbers), codes, self._starts.ctypes.data, size):
            raise InputError("model_run gives back an error")
        parts = np.split(seen, self._starts[1:-1], axis=1) if self._observed else []
        return scores, {
            layer.operation: part.reshape(len(numbers), *layer.shape)
            for layer, part in zip(self._observed, parts, strict=True)
        }
