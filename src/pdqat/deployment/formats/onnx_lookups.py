"""Choices by places, as ONNX has them: brackets, tensors of places, rows of tables."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdqat.deployment.formats.onnx_emitter import Emitter, Value
from pdqat.deployment.formats.onnx_shapes import cut


def item(file: Emitter, x: Value, index: Any) -> str:
    """What brackets choose: a part of several results, numbers, ranges, new dimensions, one tensor of places."""
    if isinstance(x.name, tuple):
        if not isinstance(index, int) or index >= len(x.name):
            raise file.refuse("the places of the largest or smallest numbers")
        return str(x.name[index])
    indices = list(index) if isinstance(index, tuple) else [index]
    taken = sum(part is not None and part is not Ellipsis for part in indices)
    if Ellipsis not in [part for part in indices if not isinstance(part, Value)]:
        indices.append(Ellipsis)
    places = [part for part in indices if isinstance(part, Value) and isinstance(part.small, Tensor)]
    if len(places) == taken and len(places) > 1:
        return indexed(file, x, places)
    if len(places) > 1 or (places and any(isinstance(part, int) for part in indices)):
        raise file.refuse("an index of several tensors among other parts")
    name, axis = x.name, 0
    for part in indices:
        if part is Ellipsis:
            axis += x.dims - taken
        elif part is None:
            name, axis = file.emit("Unsqueeze", [name, file.whole(axis)]), axis + 1
        elif isinstance(part, slice):
            name, axis = cut(file, name, axis, part.start, part.stop, part.step or 1), axis + 1
        elif isinstance(part, int) and not isinstance(part, bool):
            name = file.emit("Gather", [name, file.constant(part, np.int64)], axis=axis)
        elif isinstance(part, Value) and isinstance(part.small, Tensor):
            name, axis = file.emit("Gather", [name, _places(file, part)], axis=axis), axis + part.dims
        else:
            raise file.refuse(f"an index of {type(part).__name__}")
    return str(name)


def _places(file: Emitter, index: Value) -> str:
    if index.small.dtype != torch.bool:
        return file.operand(index, torch.int64)
    if not index.is_constant or index.dims != 1:
        raise file.refuse("a choice by a mask that is computed")
    return file.constant(index.small.nonzero()[:, 0])


def indexed(file: Emitter, x: Value, indices: Sequence[Value | None]) -> str:
    """By one tensor of places, or by several for the first dimensions."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) == 1:
        ((dim, index),) = given
        return file.emit("Gather", [x.name, _places(file, index)], axis=dim)
    if [dim for dim, _ in given] != list(range(len(given))) or any(i.small.dtype == torch.bool for _, i in given):
        raise file.refuse("an index of several tensors behind other dimensions")
    ends = [
        torch.broadcast_shapes(*(getattr(index, end).shape for _, index in given))  # type: ignore[no-untyped-call]
        for end in ("small", "large")
    ]
    shape = file.sizes(*ends)
    columns = [file.emit("Expand", [file.operand(index, torch.int64), shape]) for _, index in given]
    columns = [file.emit("Unsqueeze", [column, file.whole(len(ends[0]))]) for column in columns]
    return file.emit("GatherND", [x.name, file.emit("Concat", columns, axis=-1)])


def chosen(file: Emitter, x: Value, dim: int, index: Value) -> str:
    """Whole parts of a dimension, by their places."""
    return file.emit("Gather", [x.name, file.operand(index, torch.int64)], axis=dim % x.dims)


def gathered(file: Emitter, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> str:
    """Number by number."""
    if any(size != x.shape[axis] for axis, size in enumerate(index.shape) if axis != dim % x.dims):
        raise file.refuse("a gather from a part of the other dimensions")
    return file.emit("GatherElements", [x.name, file.operand(index, torch.int64)], axis=dim % x.dims)


def embedding(file: Emitter, *arguments: Any, **_: Any) -> str:
    """Rows by their numbers; torch's function has the numbers first, its operator the rows."""
    first, second = arguments[:2]
    rows, numbers = (first, second) if first.small.is_floating_point() else (second, first)
    return file.emit("Gather", [rows.name, file.operand(numbers, torch.int64)], axis=0)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "getitem": item,
    "index": indexed,
    "index_select": chosen,
    "gather": gathered,
    "embedding": embedding,
}
"""By torch's names, with torch's arguments behind the file."""
