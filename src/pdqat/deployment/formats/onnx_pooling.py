"""Pooling and resizing as ONNX has them, of one, two and three dimensions.

ONNX and its runtimes do not agree with torch on where a window of `ceil_mode` may start. Such windows are written as
further padding, of which the example's result tells how much.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pdqat.deployment.formats.onnx_emitter import Emitter, Value
from pdqat.deployment.formats.onnx_parts import as_list
from pdqat.deployment.formats.onnx_shapes import cut

Sizes = int | Sequence[int]
LINEAR = ("linear", "bilinear", "trilinear")
"""By the number of dimensions."""


def _result(file: Emitter) -> Value:
    """The pooled numbers, without where they were found."""
    made = file.made
    return Value("", made.small[0], made.large[0]) if isinstance(made.small, tuple) else made


def _behind(file: Emitter, x: Value, window: list[int], stride: list[int], padding: list[int]) -> list[int]:
    """How much padding the last windows need behind the numbers."""
    sizes, pooled = x.shape[-len(window) :], _result(file).shape[-len(window) :]
    reach = [(count - 1) * step + size for count, step, size in zip(pooled, stride, window, strict=True)]
    return [max(end - size - pad, pad) for end, size, pad in zip(reach, sizes, padding, strict=True)]


def max_pool(
    file: Emitter,
    x: Value,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest in each window."""
    dims = x.dims - 2
    kernel, pads, dilations = (as_list(numbers, dims) for numbers in (kernel_size, padding, dilation))
    steps = as_list(stride or kernel, dims)
    window = [step * (size - 1) + 1 for step, size in zip(dilations, kernel, strict=True)]
    behind = _behind(file, x, window, steps, pads)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": steps, "pads": [*pads, *behind]}
    if dilations != [1] * dims:
        attributes["dilations"] = dilations
    pooled = file.emit("MaxPool", [x.name], **attributes)
    return (pooled,) if isinstance(file.made.small, tuple) else pooled


def average_pool(
    file: Emitter,
    x: Value,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> str:
    """The mean of each window; torch counts its padding, but never what `ceil_mode` adds."""
    if divisor_override is not None:
        raise file.refuse("an average with a divisor of its own")
    dims = x.dims - 2
    kernel, pads = (as_list(numbers, dims) for numbers in (kernel_size, padding))
    steps = as_list(stride or kernel, dims)
    behind = _behind(file, x, kernel, steps, pads)
    name, include = x.name, count_include_pad and any(pads)
    if include and behind != pads:
        around = [0, 0, *pads]
        name = file.emit("Pad", [name, file.whole(*around, *around), file.scalar(0)], mode="constant")
        pads, behind = [0] * dims, [more - pad for more, pad in zip(behind, pads, strict=True)]
        include = False
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": steps, "pads": [*pads, *behind]}
    return file.emit("AveragePool", [name], count_include_pad=int(include), **attributes)


def _adaptive(average: bool) -> Callable[..., Any]:
    kind = "Average" if average else "Max"

    def write(file: Emitter, x: Value, output_size: Any, return_indices: bool = False) -> Any:
        made = _result(file)
        before, after = x.shape[2:], made.shape[2:]
        if all(size == 1 for size in after):
            pooled = file.emit(f"Global{kind}Pool", [x.name])
        elif all(size % count == 0 for size, count in zip(before, after, strict=True)):
            kernel = [size // count for size, count in zip(before, after, strict=True)]
            pooled = file.emit(f"{kind}Pool", [x.name], kernel_shape=kernel, strides=kernel)
        else:
            pooled = x.name
            for axis, (size, count) in enumerate(zip(before, after, strict=True), 2):
                pooled = _windows(file, pooled, "ReduceMean" if average else "ReduceMax", axis, size, count)
        return (pooled,) if isinstance(file.made.small, tuple) else pooled

    return write


def _windows(file: Emitter, name: str, kind: str, axis: int, size: int, count: int) -> str:
    """Windows of unequal sizes along one dimension: from floor(i size / count) to ceil((i + 1) size / count)."""
    if size == count:
        return name
    ends = [(index * size // count, -(-(index + 1) * size // count)) for index in range(count)]
    parts = [file.reduce(kind, cut(file, name, axis, *pair), [axis], True) for pair in ends]
    return file.emit("Concat", parts, axis=axis)


def interpolated(
    file: Emitter,
    x: Value,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> str:
    """To another size of image, by the places that torch takes numbers from.

    Only whole factors of the nearest are ONNX's Resize: behind sums of integers OpenVINO rounds what it interpolates.
    """
    if antialias or mode not in (*LINEAR, "nearest"):
        raise file.refuse(f"interpolation by {mode!r}{' with antialias' * antialias}")
    before, after = x.shape[2:], file.made.shape[2:]
    whole = all(count % size == 0 for size, count in zip(before, after, strict=True))
    if mode == "nearest" and whole:
        attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        factors = [count / size for size, count in zip(before, after, strict=True)]
        return file.emit("Resize", [x.name, "", file.constant([1, 1, *factors], "float32")], None, **attributes)
    name = x.name
    for axis, extent in enumerate(before, 2):
        along = [-1 if dim == axis else 1 for dim in range(x.dims)]
        image = torch.arange(extent, dtype=torch.float64).view(along).expand(1, 1, *before)
        options: dict[str, Any] = {"align_corners": align_corners, "recompute_scale_factor": recompute_scale_factor}
        places = torch.nn.functional.interpolate(image, size, scale_factor, mode, **options)
        name = _between(file, name, axis, extent, places.movedim(axis, 0).flatten(1)[:, 0], along)
    return str(name)


def _between(file: Emitter, name: str, axis: int, extent: int, places: torch.Tensor, along: list[int]) -> str:
    """Numbers at places of a dimension, between the two nearest."""
    first = places.floor().long()
    part = (places - first).float().view(along)
    below = file.emit("Gather", [name, file.constant(first)], axis=axis)
    if not bool(part.any()):
        return below
    above = file.emit("Gather", [name, file.constant((first + 1).clamp(max=extent - 1))], axis=axis)
    shares = [
        file.emit("Mul", [below, file.constant(1 - part)]),
        file.emit("Mul", [above, file.constant(part)]),
    ]
    return file.emit("Add", shares)


def _factors(scales: tuple[Any, ...]) -> tuple[float, ...] | None:
    """Of torch's operators: in one list, one by one, or none."""
    given = tuple(scales[0]) if scales and isinstance(scales[0], tuple | list) else scales
    return None if not given or None in given else given


def upsampled_nearest(file: Emitter, x: Value, output_size: Any, *scales: Any) -> str:
    """As torch's operators have it."""
    factors = _factors(scales)
    return interpolated(file, x, None if factors else list(file.made.shape[2:]), factors)


def upsampled_linear(file: Emitter, x: Value, output_size: Any, align_corners: bool, *scales: Any) -> str:
    """The same between the nearest numbers."""
    factors, mode = _factors(scales), LINEAR[x.dims - 3]
    return interpolated(file, x, None if factors else list(file.made.shape[2:]), factors, mode, align_corners)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"max_pool{dims}d": max_pool for dims in (1, 2, 3)},
    **{f"max_pool{dims}d_with_indices": max_pool for dims in (2, 3)},
    **{f"avg_pool{dims}d": average_pool for dims in (1, 2, 3)},
    **{f"adaptive_avg_pool{dims}d": _adaptive(average=True) for dims in (1, 2, 3)},
    **{f"adaptive_max_pool{dims}d": _adaptive(average=False) for dims in (1, 2, 3)},
    **{f"upsample_nearest{dims}d": upsampled_nearest for dims in (1, 2, 3)},
    **dict.fromkeys(("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), upsampled_linear),
    "interpolate": interpolated,
}
"""By torch's names, with torch's arguments behind the file."""
