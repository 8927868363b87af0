"""Pooling as ONNX has it, of one, two and three dimensions, as modules and as functions."""

from typing import Any

from torch import nn

from pdqat.errors import InputError

MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
AVERAGE_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
GLOBAL_AVERAGES = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
GLOBAL_MAXIMA = (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d)
POOLS: tuple[type[nn.Module], ...] = (*MAX_POOLS, *AVERAGE_POOLS, *GLOBAL_AVERAGES, *GLOBAL_MAXIMA)
FUNCTIONS: dict[str, type[nn.Module]] = {
    f"{name}{dims}d": kinds[dims - 1]
    for name, kinds in (
        ("max_pool", MAX_POOLS),
        ("avg_pool", AVERAGE_POOLS),
        ("adaptive_avg_pool", GLOBAL_AVERAGES),
        ("adaptive_max_pool", GLOBAL_MAXIMA),
    )
    for dims in (1, 2, 3)
}
"""The module that a function computes as; it takes the function's arguments behind the input."""


def pooling(name: str, module: Any) -> tuple[str, dict[str, Any]]:
    """The ONNX operation of a pooling module, and its attributes."""
    kind = type(module).__name__
    dims = int(kind[-2])
    if isinstance(module, GLOBAL_AVERAGES + GLOBAL_MAXIMA):
        if module.output_size not in (1, (1,) * dims):
            raise InputError(f"{name}: {kind} to {module.output_size} can't be written to ONNX; to 1 it can")
        return "GlobalAveragePool" if isinstance(module, GLOBAL_AVERAGES) else "GlobalMaxPool", {}
    dilation = getattr(module, "dilation", 1)
    if module.ceil_mode or getattr(module, "divisor_override", None) or dilation not in (1, (1,) * dims):
        raise InputError(f"{name}: {kind} with ceil_mode, dilation or a divisor can't be written to ONNX")
    size, stride, padding = (
        [number] * dims if isinstance(number, int) else list(number)
        for number in (module.kernel_size, module.stride, module.padding)
    )
    attributes = {"kernel_shape": size, "strides": stride, "pads": [*padding, *padding]}
    if isinstance(module, MAX_POOLS):
        return "MaxPool", attributes
    return "AveragePool", {**attributes, "count_include_pad": int(module.count_include_pad)}
