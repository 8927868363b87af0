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

from pdqat.batches import plain
from pdqat.disk import write_atomically
from pdqat.errors import InputError
from pdqat.layers.transfer import plain_state


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
    best = checkpoint["best"]
    if "accuracy" in best:  # what the score was called when there was one metric
        checkpoint["best"] = {**{key: best[key] for key in best if key != "accuracy"}, "score": best["accuracy"]}
    return checkpoint


def save_example(path: Path, example: Any) -> None:
    """An example input: tensors, alone or in tuples, lists and dictionaries."""
    save_checkpoint(path, {"example": plain(example)})


def load_example(path: Path) -> Any:
    """Read an example without being able to run code from it."""
    content = _torch_load(path, "example input")
    if not isinstance(content, dict) or "example" not in content:
        raise InputError(f"{path} holds no example input of a pdqat run")
    return content["example"]


def load_plain_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a plain model; a run's checkpoint, which needs the run's quantiser, is refused."""
    if path.suffix != ".safetensors" and path.is_file() and _is_checkpoint(_torch_load(path, "file of weights")):
        raise InputError(f"{path} is the checkpoint of a run, whose quantiser belongs to it: give the run's folder")
    return load_weights(path)


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
        return plain_state(content["model"])
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError(f"{path} holds no state_dict: it must be a dictionary of names and tensors")
    return content


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
