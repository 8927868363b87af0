"""Batches: any iterable of (inputs, target), such as a torch DataLoader, a list, or `pdqat.data.Batches`.

Inputs and targets are tensors, or tuples, lists and dictionaries of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any

import torch
from torch import Tensor

from pdqat.errors import InputError

Batches = Iterable[Any]
"""Of pairs, inputs and target; a DataLoader gives them as lists."""


def each_tensor(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """The same structure, with `function` applied to every tensor in it.

    >>> each_tensor({"x": torch.ones(2), "n": 3}, len)
    {'x': 2, 'n': 3}
    """
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple takes its parts one by one
        return type(value)(*(each_tensor(part, function) for part in value))
    if isinstance(value, tuple | list):
        return type(value)(each_tensor(part, function) for part in value)
    if isinstance(value, Mapping):
        return {key: each_tensor(part, function) for key, part in value.items()}
    return value


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors of a structure, from left to right."""
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def on_device(value: Any, device: torch.device) -> Any:
    """The same structure on a device."""
    return each_tensor(value, lambda tensor: tensor.to(device))


def first_rows(value: Any, count: int) -> Any:
    """The first samples of a batch's inputs or target; tensors that are not by samples stay whole."""
    samples = next((len(tensor) for tensor in tensors_in(value) if tensor.dim()), 0)
    return each_tensor(value, lambda tensor: tensor[:count] if tensor.dim() and len(tensor) == samples else tensor)


def these_rows(value: Any, rows: Tensor | None) -> Any:
    """Some samples of a batch's inputs or target, by their numbers; all of them for None."""
    if rows is None:
        return value
    samples = samples_in(value)
    return each_tensor(value, lambda it: it.index_select(0, rows) if it.dim() and len(it) == samples else it)


def plain(value: Any) -> Any:
    """The same structure in tuples, lists and dictionaries of Python's own, which a file can hold without code."""
    if isinstance(value, tuple):
        return tuple(plain(part) for part in value)
    if isinstance(value, list):
        return [plain(part) for part in value]
    return {key: plain(part) for key, part in value.items()} if isinstance(value, Mapping) else value


def samples_in(value: Any) -> int:
    """How many samples a batch's inputs or target hold: the length of its first tensor."""
    first = next((tensor for tensor in tensors_in(value) if tensor.dim()), None)
    if first is None:
        raise InputError(f"a batch holds no tensor with a sample dimension, but {type(value).__name__}")
    return len(first)


def limited(batches: Batches, samples: int) -> Iterator[tuple[Any, Any]]:
    """The first so many samples."""
    left = samples
    source = pairs(batches)
    while left > 0 and (batch := next(source, None)) is not None:
        inputs, target = batch
        count = samples_in(inputs)
        yield batch if count <= left else (first_rows(inputs, left), first_rows(target, left))
        left -= count


def pairs(batches: Batches) -> Iterator[tuple[Any, Any]]:
    """The batches, each checked to be (inputs, target)."""
    batch: Any
    check_iterable(batches, "batches")
    for batch in batches:
        if not isinstance(batch, tuple | list):
            raise InputError(f"a batch must be a pair of inputs and target, not a {type(batch).__name__}")
        if len(batch) != 2:
            raise InputError(
                f"a batch must be a pair of inputs and target, not a {type(batch).__name__} of {len(batch)}"
            )
        yield batch[0], batch[1]


def check_iterable(batches: Batches, name: str) -> None:
    """Refuse what holds no batches."""
    if not isinstance(batches, Iterable):
        raise InputError(f"{name} must be an iterable of (inputs, target), such as a DataLoader, not {batches!r}")


def check_repeatable(batches: Batches, name: str) -> None:
    """Refuse what can be gone through once only: every epoch needs it anew."""
    check_iterable(batches, name)
    if isinstance(batches, Iterator):
        raise InputError(
            f"{name} is a {type(batches).__name__}, which ends after one pass; give a list or a DataLoader, which can "
            "be gone through again"
        )


def length_of(batches: Batches) -> int | None:
    """The number of batches, if it is known: a DataLoader may have a length that it can't tell."""
    try:
        return len(batches) if isinstance(batches, Sized) else None
    except TypeError:
        return None


def seed_pass(batches: Batches | None, seed: int, generator_only: bool = False) -> None:
    """Let all that is random in a pass follow from the seed: torch's own generator, and those that the loader has."""
    if not generator_only:
        torch.manual_seed(seed)
    sampler = getattr(batches, "sampler", None)
    for generator in (getattr(batches, "generator", None), getattr(sampler, "generator", None)):
        if isinstance(generator, torch.Generator):
            generator.manual_seed(seed)
    set_epoch = getattr(sampler, "set_epoch", None)
    if callable(set_epoch):  # torch's DistributedSampler
        set_epoch(seed)
