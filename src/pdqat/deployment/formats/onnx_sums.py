"""Sums over dimensions as ONNX has them: means, lengths, softmax, largest and smallest numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from pdqat.deployment.formats.onnx_emitter import Emitter, Value

Dims = int | Sequence[int] | None


def axes_of(x: Value, dims: Dims) -> list[int]:
    """From 0 on; none are all."""
    given = range(x.dims) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    return sorted(dim % x.dims for dim in given)


def _reduced(kind: str) -> Callable[..., str]:
    def write(file: Emitter, x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> str:
        return file.reduce(kind, file.operand(x), axes_of(x, dim), keepdim)

    return write


def _extreme(kind: str, of_two: str) -> Callable[..., Any]:
    """Over a dimension, where the second result, where it was found, is not written; or of two tensors."""

    def write(file: Emitter, x: Value, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Value):
            return file.emit(of_two, [file.operand(x), file.operand(dim)])
        reduced = file.reduce(kind, x.name, axes_of(x, dim), keepdim)
        return reduced if dim is None else (reduced,)

    return write


def _place(kind: str) -> Callable[..., str]:
    """Where the largest or smallest of whole numbers is, the first one of several."""

    def write(file: Emitter, x: Value, dim: int | None = None, keepdim: bool = False) -> str:
        if dim is None:
            raise file.refuse("a place in all dimensions")
        name = file.cast(x.name, x.small.dtype, torch.int64 if x.small.dtype == torch.bool else x.small.dtype)
        return file.emit(kind, [name], axis=dim % x.dims, keepdims=int(keepdim))

    return write


def cumsum(file: Emitter, x: Value, dim: int, *, dtype: Any = None) -> str:
    """Sums of all that stand before."""
    return file.emit("CumSum", [file.operand(x), file.constant(dim % x.dims, np.int64)])


def variance(
    file: Emitter,
    x: Value,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> str:
    """Of the numbers along dimensions."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes = axes_of(x, dim)
    if any(x.follows_batch(axis) for axis in axes):
        raise file.refuse("a variance over samples")
    away = file.emit("Sub", [x.name, file.reduce("ReduceMean", x.name, axes, True)])
    squares = file.reduce("ReduceSum", file.emit("Mul", [away, away]), axes, keepdim)
    less = float(unbiased) if correction is None else float(correction)
    return file.emit("Div", [squares, file.scalar(max(np.prod([x.shape[axis] for axis in axes]) - less, 0.0))])


def deviation(file: Emitter, x: Value, *arguments: Any, **named: Any) -> str:
    """The variance's root."""
    return file.emit("Sqrt", [variance(file, x, *arguments, **named)])


def _softmax(kind: str) -> Callable[..., str]:
    def write(
        file: Emitter, x: Value, dim: int | None = None, _: Any = None, __: Any = None, *, dtype: Any = None
    ) -> str:
        if dim is None:
            raise file.refuse("a softmax without a dimension")
        return file.emit(kind, [file.operand(x)], axis=dim % x.dims)

    return write


def vector_norm(
    file: Emitter, x: Value, order: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> str:
    """The root of squares, or the sum of sizes."""
    if order not in (1, 2):
        raise file.refuse(f"a norm of order {order}, other than 1 and 2,")
    return file.reduce(f"ReduceL{int(order)}", x.name, axes_of(x, dim), keepdim)


def normalize(file: Emitter, x: Value, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> str:
    """Divided by its norm."""
    size = file.emit("Max", [vector_norm(file, x, p, dim, True), file.scalar(eps)])
    return file.emit("Div", [x.name, size])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mean": _reduced("ReduceMean"),
    "sum": _reduced("ReduceSum"),
    "amax": _reduced("ReduceMax"),
    "amin": _reduced("ReduceMin"),
    "cumsum": cumsum,
    "argmax": _place("ArgMax"),
    "argmin": _place("ArgMin"),
    "max": _extreme("ReduceMax", "Max"),
    "min": _extreme("ReduceMin", "Min"),
    "var": variance,
    "std": deviation,
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "linalg_vector_norm": vector_norm,
    "norm": vector_norm,
    "normalize": normalize,
}
"""By torch's names, with torch's arguments behind the file."""
