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
MODES = {"linear": "linear", "bilinear": "linear", "trilinear": "linear"}


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
    """To another size of image."""
    if antialias or mode not in (*MODES, "nearest"):
        raise file.refuse(f"interpolation by {mode!r}{' with antialias' * antialias}")
    if mode == "nearest":
        return _nearest(file, x, lambda image: torch.nn.functional.interpolate(image, size, scale_factor))
    given = None if recompute_scale_factor else scale_factor
    return _linear(file, x, bool(align_corners), None if given is None else as_list(given, x.dims - 2))


def _nearest(file: Emitter, x: Value, apply: Callable[[torch.Tensor], torch.Tensor]) -> str:
    """Rows and columns by the places that torch takes them from."""
    name, sizes = x.name, file.made.shape[2:]
    if all(after % before == 0 for before, after in zip(x.shape[2:], sizes, strict=True)):
        attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        scales = [after / before for before, after in zip(x.shape[2:], sizes, strict=True)]
        return file.emit("Resize", [name, "", file.constant([1, 1, *scales], "float32")], **attributes)
    for axis, size in enumerate(x.shape[2:], 2):
        along = [-1 if dim == axis else 1 for dim in range(x.dims)]
        places = apply(torch.arange(float(size)).view(along).expand(1, 1, *x.shape[2:]))
        row = places.movedim(axis, 0).flatten(1)[:, 0].long()
        name = file.emit("Gather", [name, file.constant(row)], axis=axis)
    return str(name)


def _linear(file: Emitter, x: Value, corners: bool, factors: Sequence[float] | None) -> str:
    coordinates = "align_corners" if corners else "half_pixel"
    before, after = x.shape[2:], file.made.shape[2:]
    factors = None if corners or factors is None else [float(factor) for factor in factors]
    exact = factors is None or all(
        size * factor == count for size, factor, count in zip(before, factors, after, strict=True)
    )
    if not exact:
        scales = file.constant([1.0, 1.0, *(factors or [])], "float32")
        return file.emit("Resize", [x.name, "", scales], mode="linear", coordinate_transformation_mode=coordinates)
    sizes = file.sizes(file.made.shape, file.made.large.shape)
    return file.emit("Resize", [x.name, "", "", sizes], mode="linear", coordinate_transformation_mode=coordinates)


def upsampled_nearest(file: Emitter, x: Value, output_size: Any, *scales: Any) -> str:
    """As torch's operators have it: a size or factors, in one list or one by one."""
    factors = list(scales[0]) if scales and isinstance(scales[0], tuple | list) else list(scales)
    if any(factor is None for factor in factors) or not factors:
        return interpolated(file, x, list(file.made.shape[2:]))
    return interpolated(file, x, None, tuple(factors))


def upsampled_linear(file: Emitter, x: Value, output_size: Any, align_corners: bool, *scales: Any) -> str:
    """The same between the nearest numbers."""
    factors = list(scales[0]) if scales and isinstance(scales[0], tuple | list) else list(scales)
    return _linear(file, x, align_corners, None if not factors or None in factors else factors)


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
