"""The runtimes that execute a file: ONNX Runtime and OpenVINO, each an extra, behind one interface."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from pdqat.errors import InputError

OUTPUT = "output"


class Session(Protocol):
    """A file loaded into a runtime."""

    def run(self, images: np.ndarray) -> Mapping[str, np.ndarray]:
        """All outputs by name."""


class OnnxRuntime:
    """ONNX Runtime on the CPU."""

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions share no base class
            raise InputError(f"onnxruntime can't load {path}: {_first_line(error)}") from error
        self._input = self._session.get_inputs()[0].name
        self._outputs = [each.name for each in self._session.get_outputs()]

    def run(self, images: np.ndarray) -> Mapping[str, np.ndarray]:
        """All outputs by name."""
        try:
            made = self._session.run(self._outputs, {self._input: images})
        except Exception as error:
            raise InputError(f"onnxruntime can't run the file: {_first_line(error)}") from error
        return dict(zip(self._outputs, made, strict=True))


class OpenVino:
    """OpenVINO on the CPU, in float32 where it does not compute with integers."""

    def __init__(self, path: Path, threads: int) -> None:
        import openvino

        core = openvino.Core()
        settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
        try:
            self._model = core.compile_model(core.read_model(str(path)), "CPU", settings)
        except RuntimeError as error:
            raise InputError(f"openvino can't load {path}: {_first_line(error)}") from error
        self._outputs = [each.get_names() for each in self._model.outputs]  # it merges tensors, and keeps all names

    def run(self, images: np.ndarray) -> Mapping[str, np.ndarray]:
        """All outputs by name."""
        try:
            found = self._model(images)
        except RuntimeError as error:
            raise InputError(f"openvino can't run the file: {_first_line(error)}") from error
        return {name: np.asarray(found[index]) for index, names in enumerate(self._outputs) for name in names}


class Program:
    """A program of torch.export that this process made: others are not loaded, since that could run code."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self._module = program.module()

    def run(self, images: np.ndarray) -> Mapping[str, np.ndarray]:
        """The one output."""
        with torch.no_grad():
            return {OUTPUT: self._module(torch.from_numpy(images)).numpy()}


RUNTIMES: dict[str, type[OnnxRuntime] | type[OpenVino]] = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}


def installed() -> list[str]:
    """The runtimes that are here."""
    return [name for name in RUNTIMES if importlib.util.find_spec(name) is not None]


def needed() -> list[str]:
    """The same, where there must be one."""
    if not installed():
        raise InputError("there is no runtime to run the file in: pip install 'pdqat[export]'")
    return installed()


def load(name: str, path: Path, threads: int = 1) -> Session:
    """A file in a runtime."""
    if name not in RUNTIMES:
        raise InputError(f"unknown runtime {name!r}; choose one of {', '.join(RUNTIMES)}")
    if name not in installed():
        extra = "export" if name == "onnxruntime" else "openvino"
        raise InputError(f"{name} is not installed: pip install 'pdqat[{extra}]'")
    return RUNTIMES[name](path, threads)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
