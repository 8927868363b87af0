"""Norms as ONNX has them: of layers, groups, instances and batches."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pdqat.deployment.formats.onnx_emitter import Emitter, Value


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
    inputs = [file.apart(x.name), scale, *([] if bias is None else [bias.name])]
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
    normalized = file.emit("InstanceNormalization", [file.apart(grouped), *ends], epsilon=eps)
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
    return file.emit("InstanceNormalization", [file.apart(x.name), *ends], epsilon=eps)


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


FUNCTIONS: dict[str, Callable[..., Any]] = {
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
}
"""By torch's names, with torch's arguments behind the file."""
