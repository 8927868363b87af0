"""Parts of ONNX graphs: how inputs, outputs and convolutions are described."""

from typing import Any

from torch import Tensor

from pdqat.deployment.integer.functions import function_name
from pdqat.errors import InputError

try:
    from onnx import helper
except ImportError as error:
    raise InputError("ONNX files need onnx: pip install 'pdqat[export]'") from error

__all__ = ["as_list", "convolution_attributes", "description", "function_name"]


def description(name: str, kind: int, like: Tensor, follows_batch: bool = True) -> Any:
    """Of an input or output, of any batch size."""
    return helper.make_tensor_value_info(name, kind, ["batch", *like.shape[1:]] if follows_batch else list(like.shape))


def convolution_attributes(options: dict[str, Any], weight: Tensor) -> dict[str, Any]:
    """ONNX's names for a convolution's options."""
    dims = weight.dim() - 2
    stride, padding, dilation = (
        as_list(options.get(name, default), dims) for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    return {
        "kernel_shape": list(weight.shape[2:]),
        "strides": stride,
        "pads": [*padding, *padding],
        "dilations": dilation,
        "group": options.get("groups", 1),
    }


def as_list(value: Any, dims: int) -> list[Any]:
    """A number for each dimension, where one stands for all."""
    given = list(value) if isinstance(value, tuple | list) else [value]
    return given * dims if len(given) == 1 else given
