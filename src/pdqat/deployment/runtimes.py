"""The runtimes that execute a file: ONNX Runtime and OpenVINO, each an extra, behind one interface."""

import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from xml.parsers import expat

import numpy as np
import torch
from torch import Tensor

from pdqat import telemetry
from pdqat.disk import read_file
from pdqat.errors import InputError
from pdqat.patience import within

telemetry.turn_off()  # before any of them is imported

ONNX_RUNTIME, OPENVINO = "onnxruntime", "openvino"


Arrays = Mapping[str, np.ndarray]
"""By the names of inputs or outputs."""


class Session(Protocol):
    """A file loaded into a runtime."""

    @property
    def inputs(self) -> Sequence[str]:
        """The names of its inputs."""

    def run(self, inputs: Arrays) -> Arrays:
        """All outputs by name, of all inputs by name."""


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
            raise InputError(f"onnxruntime can't load {path}: {reason(error)}") from error
        self.inputs = [described.name for described in self._session.get_inputs()]
        _check_any(self.inputs, path)
        self._outputs = [described.name for described in self._session.get_outputs()]

    def run(self, inputs: Arrays) -> Arrays:
        """All outputs by name."""
        _check_names(self.inputs, inputs)
        try:
            made = self._session.run(self._outputs, dict(inputs))
        except Exception as error:
            raise InputError(f"onnxruntime can't run the file: {reason(error)}") from error
        return dict(zip(self._outputs, made, strict=True))


class OpenVino:
    """OpenVINO on the CPU, in float32 where it does not compute with integers.

    A model of a fixed batch size is compiled anew for every other one.
    """

    def __init__(self, path: Path, threads: int) -> None:
        import openvino

        self._core = openvino.Core()
        self._settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
        self._compiled: dict[int | None, Any] = {}
        self._model = read_model(self._core, path)
        _check_any(self._model.inputs, path)
        try:
            self.inputs = [described.get_any_name() for described in self._model.inputs]
            self._fixed = all(described.get_partial_shape().is_static for described in self._model.inputs)
            self._outputs = [
                output.get_names() for output in self._model.outputs
            ]  # it merges tensors, and keeps all names
            if not self._fixed:
                self._compile(None)
        except RuntimeError as error:
            raise InputError(f"openvino can't load {path}: {reason(error)}") from error

    def run(self, inputs: Arrays) -> Arrays:
        """All outputs by name."""
        _check_names(self.inputs, inputs)
        try:
            made = self._compile(inputs if self._fixed else None)(dict(inputs))
        except RuntimeError as error:
            raise InputError(f"openvino can't run the file: {reason(error)}") from error
        return {name: np.asarray(made[index]) for index, names in enumerate(self._outputs) for name in names}

    def _compile(self, inputs: Arrays | None) -> Any:
        count = None if inputs is None else len(next(iter(inputs.values())))
        if count not in self._compiled:
            if inputs is not None:
                self._model.reshape({name: array.shape for name, array in inputs.items()})
            self._compiled[count] = self._core.compile_model(self._model, "CPU", self._settings)
        return self._compiled[count]


class Program:
    """A program of torch.export that this process made: others are not loaded, since that could run code."""

    def __init__(self, program: torch.export.ExportedProgram, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._module = program.module()
        self.inputs, self._outputs = inputs, outputs

    def run(self, inputs: Arrays) -> Arrays:
        """All outputs by name."""
        with torch.no_grad():
            made = self._module(*(torch.from_numpy(inputs[name]) for name in self.inputs))
        named = made if isinstance(made, dict) else dict.fromkeys(self._outputs, made)
        return {name: tensor.numpy() for name, tensor in named.items()}


RUNTIMES: dict[str, type[OnnxRuntime] | type[OpenVino]] = {ONNX_RUNTIME: OnnxRuntime, OPENVINO: OpenVino}


def installed() -> list[str]:
    """The runtimes that are here."""
    return [name for name in RUNTIMES if importlib.util.find_spec(name) is not None]


def needed(path: Path | None = None) -> list[str]:
    """Those that read the file, where there must be one; without a file those that read ONNX."""
    if path is not None and path.suffix == ".xml":
        return [OPENVINO]
    if not installed():
        raise InputError("there is no runtime to run the file in: pip install 'pdqat[export]'")
    return installed()


def load(name: str, path: Path, threads: int = 1) -> Session:
    """A file in a runtime."""
    if name not in RUNTIMES:
        raise InputError(f"unknown runtime {name!r}; choose one of {', '.join(RUNTIMES)}")
    if name not in installed():
        extra = "export" if name == ONNX_RUNTIME else "openvino"
        raise InputError(f"{name} is not installed: pip install 'pdqat[{extra}]'")
    return within(lambda: RUNTIMES[name](path, threads), f"loading {path} into {name}")


def arrays(tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Inputs as runtimes read them."""
    return {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in tensors.items()}


def outputs_of(session: Session, inputs: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    """The outputs of a file that was written here."""
    made = session.run(arrays(inputs))
    missing = next((name for name in names if name not in made), None)
    if missing is not None:
        raise InputError(
            f"the file was not exported from this network under this plan: it has no output {missing!r}, but "
            f"{', '.join(made)}"
        )
    return {name: torch.from_numpy(made[name]) for name in names}


def read_model(core: Any, path: Path) -> Any:
    """A file in OpenVINO, which would try all of its other formats on an .xml of another kind."""
    refusal = f"{path} is damaged or not a model of OpenVINO's, or its .bin is missing"
    if path.suffix == ".xml":
        content = read_file(path)
        if not re.match(rb"\s*(<\?xml[^>]*>)?\s*<net\b", content[:1000]) or not _is_xml(content):
            raise InputError(refusal)
        if re.search(rb"<\w*body\b", content):
            raise InputError(f"{path} was not exported here: it holds graphs inside its graph")
    try:
        return core.read_model(path)
    except (RuntimeError, ValueError) as error:  # the latter where it quotes bytes that are no text
        message = refusal if path.suffix == ".xml" else f"openvino can't load {path}: {reason(error)}"
        raise InputError(message) from error


def _is_xml(content: bytes) -> bool:
    """Whether all of it is XML."""
    try:
        expat.ParserCreate().Parse(content, True)
    except expat.ExpatError:
        return False
    return True


def reason(error: Exception) -> str:
    """What a runtime has to say, without the lines that name its source files."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("Exception from", "Check '"))]
    return next(iter(told or lines), type(error).__name__)


def _check_any(inputs: Sequence[Any], path: Path) -> None:
    if not inputs:
        raise InputError(f"{path} has 0 inputs; a model that was exported here has one or more")


def _check_names(own: Sequence[str], given: Iterable[str]) -> None:
    if set(own) != set(given):
        raise InputError(
            f"the file was not exported from this network under this plan: it reads {', '.join(own)}, not "
            f"{', '.join(given)}"
        )
