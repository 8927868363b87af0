"""Checkpoints and weights: files from strangers that can't run code."""

import io
import operator
import warnings
from pathlib import Path
from typing import Any, Literal

import msgspec
import safetensors
import safetensors.torch
import torch
from msgspec import UNSET, Struct, UnsetType
from torch import Tensor

from pdqat.batches import plain
from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.layers.transfer import plain_state
from pdqat.runs.forms import FORM_ERRORS
from pdqat.runs.torch_file import read_torch_file

STRUCTURE_ERRORS = (*FORM_ERRORS, TypeError, AttributeError)
"""What msgspec raises of a structure of another form; of a tensor in place of a dictionary the last."""


class BestForm(Struct):
    """The best epoch so far; there is none at first, and after a change of plan."""

    epoch: int
    score: float | None


class OptimizerForm(Struct):
    """The state of a torch optimizer."""

    state: dict[int | str, Any]
    param_groups: list[dict[str, Any]]


class CheckpointForm(Struct):
    """What best.pt and last.pt must hold; what continuing needs is in last.pt only."""

    format: Literal[1]
    epoch: int
    seconds: float
    best: BestForm
    model: dict[str, Any]
    duals: dict[str, Any]
    plan: dict[str, str] | UnsetType = UNSET
    view: str | UnsetType = UNSET
    batches: int | UnsetType = UNSET
    optimizer: OptimizerForm | UnsetType = UNSET
    scheduler: dict[str, Any] | UnsetType = UNSET
    flips: Tensor | UnsetType = UNSET


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """A torch file of tensors and plain values."""
    buffer = io.BytesIO()
    torch.save(_with_own_storage(content), buffer)
    write_atomically(path, buffer.getvalue())


def _with_own_storage(value: Any) -> Any:
    """Expanded tensors written out: a file whose tensors are larger than what is stored of them is not read."""
    if isinstance(value, Tensor):
        is_expanded = value.numel() * value.element_size() > value.untyped_storage().nbytes()
        return value.contiguous() if is_expanded else value
    if isinstance(value, dict):
        entries = {key: _with_own_storage(entry) for key, entry in value.items()}
        return value if all(entries[key] is value[key] for key in entries) else entries
    if type(value) in (list, tuple):
        parts = [_with_own_storage(part) for part in value]
        return value if all(map(operator.is_, parts, value)) else type(value)(parts)
    return value


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint without being able to run code from it."""
    return as_checkpoint(read_torch_file(path, "checkpoint"), path)


def as_checkpoint(content: Any, path: Path) -> dict[str, Any]:
    """What a file holds, in today's keys; raises InputError if it has not the form of a checkpoint."""
    content = _in_todays_keys(content)
    try:
        with warnings.catch_warnings(action="ignore"):  # torch's, where msgspec asks a tensor for an entry
            msgspec.convert(content, CheckpointForm)
    except STRUCTURE_ERRORS as error:
        raise InputError(f"{path} is not a checkpoint of a pdqat run: {error}") from error
    checkpoint: dict[str, Any] = content
    return checkpoint


def _in_todays_keys(content: Any) -> Any:
    """A checkpoint of a version with one metric calls the best score accuracy."""
    best = content.get("best") if isinstance(content, dict) else None
    if not isinstance(best, dict) or "accuracy" not in best:
        return content
    return {**content, "best": {"epoch": best.get("epoch"), "score": best["accuracy"]}}


def save_example(path: Path, example: Any) -> None:
    """An example input: tensors, alone or in tuples, lists and dictionaries."""
    save_checkpoint(path, {"example": plain(example)})


def load_example(path: Path) -> Any:
    """Read an example without being able to run code from it."""
    content = read_torch_file(path, "example input")
    if not isinstance(content, dict) or "example" not in content:
        raise InputError(f"{path} holds no example input of a pdqat run")
    return content["example"]


def load_plain_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a plain model; a run's checkpoint, which needs the run's quantiser, is refused."""
    if path.suffix != ".safetensors" and path.is_file() and _is_checkpoint(read_torch_file(path, "file of weights")):
        raise InputError(f"{path} is the checkpoint of a run, whose quantiser belongs to it: give the run's folder")
    return load_weights(path)


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a safetensors file, a weights-only torch file or a run's checkpoint."""
    if not path.is_file():
        raise InputError(f"there is no file {path} with weights to start from")
    if path.suffix == ".safetensors":
        try:
            return _numbers(safetensors.torch.load_file(path), path)
        except (OSError, safetensors.SafetensorError) as error:
            raise InputError(f"can't read the weights in {path}: {error}") from error
    content = read_torch_file(path, "file of weights")
    if _is_checkpoint(content):
        return _numbers(plain_state(content["model"]), path)
    weights: dict[str, Tensor] = content if isinstance(content, dict) else {}
    if not weights or not all(isinstance(key, str) and isinstance(value, Tensor) for key, value in weights.items()):
        raise InputError(f"{path} holds no state_dict: it must be a dictionary of names and tensors")
    return _numbers(weights, path)


def _numbers(weights: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    real = {name: tensor for name, tensor in weights.items() if tensor.is_floating_point()}
    odd = next((name for name, tensor in real.items() if bool(torch.isnan(tensor).any())), None)
    if odd is not None:
        raise InputError(f"the weights in {path} hold what is not a number, in {odd}")
    return weights


def _is_checkpoint(content: Any) -> bool:
    try:
        msgspec.convert(_in_todays_keys(content), CheckpointForm)
    except STRUCTURE_ERRORS:
        return False
    return True
