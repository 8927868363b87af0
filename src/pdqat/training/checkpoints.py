"""Checkpoints and weights: files from strangers that can't run code."""

import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from pdqat.disk import write_atomically
from pdqat.errors import InputError


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """A torch file of tensors and plain values."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_atomically(path, buffer.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint without being able to run code from it."""
    content = _torch_load(path, "checkpoint")
    if not _is_checkpoint(content):
        raise InputError(f"{path} is not a checkpoint of a pdqat run")
    checkpoint: dict[str, Any] = content
    return checkpoint


def load_weights(path: Path) -> dict[str, Tensor]:
    """The weights in a safetensors file, a weights-only torch file or a run's checkpoint."""
    if not path.is_file():
        raise InputError(f"there is no file {path} with weights to start from")
    if path.suffix == ".safetensors":
        try:
            return safetensors.torch.load_file(path)
        except (OSError, safetensors.SafetensorError) as error:
            raise InputError(f"can't read the weights in {path}: {error}") from error
    content = _torch_load(path, "file of weights")
    if _is_checkpoint(content):
        return plain_weights(content["model"])
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError(f"{path} holds no state_dict: it must be a dictionary of names and tensors")
    return content


def plain_weights(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A network's state without what its plans add to the plain model's."""
    return {key: value for key, value in state.items() if not {"views", "sums"} & set(key.split("."))}


def _is_checkpoint(content: Any) -> bool:
    kinds = {"format": int, "epoch": int, "seconds": float, "best": dict, "model": dict, "duals": dict}
    fits = isinstance(content, dict) and all(isinstance(content.get(key), kind) for key, kind in kinds.items())
    return fits and content["format"] == 1


def _torch_load(path: Path, what: str) -> Any:
    try:
        if zipfile.is_zipfile(path):
            # torch.save writes sums, but torch.load does not look at them: it takes damaged weights for good ones.
            with zipfile.ZipFile(path) as archive:
                if archive.testzip() is not None:
                    raise zipfile.BadZipFile
        with warnings.catch_warnings(action="ignore"):
            return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"there is no {what} {path}") from error
    except Exception as error:  # on odd bytes the unpickler fails in any way it likes, IndexError and struct.error too
        raise InputError(f"the {what} {path} is damaged or not a torch file of plain tensors") from error
