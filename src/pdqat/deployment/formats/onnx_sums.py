"""Sums over dimensions as ONNX has them: means, norms, softmax, largest and smallest numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

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


def scaled(file: Emitter, name: str, weight: Any, bias: Any, dims: int) -> str:
    """weight x name + bias, with a number for each channel; `dims` are those behind the channels."""
    for kind, vector, nothing in (("Mul", weight, 1), ("Add", bias, 0)):
        if vector is None or (vector.is_constant and bool((vector.small == nothing).all())):
            continue
        shaped = vector.small.reshape(*vector.small.shape, *[1] * dims)
        if not vector.is_constant:
            other = vector.name if not dims else file.reshape(vector.name, (vector.small,) * 2, (shaped,) * 2)
        else:
            other = file.constant(shaped)
        name = file.emit(kind, [name, other])
    return name


def _name_or(file: Emitter, vector: Value | None, otherwise: Tensor) -> str:
    return file.constant(otherwise) if vector is None else str(vector.name)


def layer_norm(
    file: Emitter,
    x: Value,
    normalized_shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> str:
    """Over the last dimensions."""
    scale = _name_or(file, weight, torch.ones(tuple(normalized_shape)))
    inputs = [x.name, scale] if bias is None else [x.name, scale, bias.name]
    return file.emit("LayerNormalization", inputs, axis=-len(normalized_shape), epsilon=eps)


def native_layer_norm(file: Emitter, *arguments: Any) -> tuple[str]:
    """Its first result."""
    return (layer_norm(file, *arguments),)


def rms_norm(
    file: Emitter, x: Value, normalized_shape: Sequence[int], weight: Value | None = None, eps: float | None = None
) -> str:
    """Over the root of the mean square."""
    axes = range(x.dims - len(normalized_shape), x.dims)
    mean = file.reduce("ReduceMean", file.emit("Mul", [x.name, x.name]), axes, True)
    small = torch.finfo(torch.float32).eps if eps is None else eps
    root = file.emit("Sqrt", [file.emit("Add", [mean, file.scalar(small)])])
    return scaled(file, file.emit("Div", [x.name, root]), weight, None, 0)


def group_norm(
    file: Emitter,
    x: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> str:
    """Over groups of channels, each as one channel of an instance norm."""
    groups = [tensor.reshape(len(tensor), num_groups, -1) for tensor in (x.small, x.large)]
    grouped = file.reshape(x.name, (x.small, x.large), (groups[0], groups[1]))
    ends = [file.constant(vector) for vector in (torch.ones(num_groups), torch.zeros(num_groups))]
    normalized = file.emit("InstanceNormalization", [grouped, *ends], epsilon=eps)
    back = file.reshape(normalized, (groups[0], groups[1]), (x.small, x.large))
    return scaled(file, back, weight, bias, x.dims - 2)


def native_group_norm(
    file: Emitter, x: Value, weight: Any, bias: Any, _: Any, __: int, ___: int, groups: int, eps: float
) -> tuple[str]:
    """Its first result."""
    return (group_norm(file, x, groups, weight, bias, eps),)


def batch_norm(
    file: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> str:
    """With running statistics."""
    if training or mean is None or variance is None:
        raise file.refuse("a batch norm with the statistics of the batch")
    ends = [_name_or(file, weight, torch.ones_like(mean.small)), _name_or(file, bias, torch.zeros_like(mean.small))]
    return file.emit("BatchNormalization", [x.name, *ends, mean.name, variance.name], epsilon=eps)


def functional_batch_norm(
    file: Emitter,
    x: Value,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> str:
    """With the arguments in the order of torch.nn.functional."""
    return batch_norm(file, x, weight, bias, running_mean, running_var, training, momentum, eps)


def native_batch_norm(
    file: Emitter, x: Value, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> tuple[str]:
    """Its first result."""
    return (batch_norm(file, x, weight, bias, mean, variance, False, momentum, eps),)


def instance_norm(
    file: Emitter,
    x: Value,
    weight: Value | None = None,
    bias: Value | None = None,
    mean: Value | None = None,
    variance: Value | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> str:
    """Each channel of each sample by itself."""
    if not use_input_stats:
        return batch_norm(file, x, weight, bias, mean, variance, False, momentum, eps)
    channels = x.shape[1]
    ends = [_name_or(file, weight, torch.ones(channels)), _name_or(file, bias, torch.zeros(channels))]
    return file.emit("InstanceNormalization", [x.name, *ends], epsilon=eps)


def functional_instance_norm(
    file: Emitter,
    x: Value,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> str:
    """With the arguments in the order of torch.nn.functional."""
    return instance_norm(file, x, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


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
    "layer_norm": layer_norm,
    "native_layer_norm": native_layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "native_group_norm": native_group_norm,
    "batch_norm": batch_norm,
    "functional_batch_norm": functional_batch_norm,
    "functional_instance_norm": functional_instance_norm,
    "instance_norm": instance_norm,
    "native_batch_norm_legit_no_training": native_batch_norm,
    "linalg_vector_norm": vector_norm,
    "norm": vector_norm,
    "normalize": normalize,
}
"""By torch's names, with torch's arguments behind the file."""
