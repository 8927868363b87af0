"""Functions that move numbers, as ONNX has them: shapes, parts, joins, paddings."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from pdqat.deployment.formats.onnx_emitter import Emitter, Value

LAST = np.iinfo(np.int64).max
PADDINGS = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def _numbers(given: tuple[Any, ...]) -> list[Any]:
    """Arguments that come one by one or in one list."""
    return list(given[0]) if len(given) == 1 and isinstance(given[0], tuple | list) else list(given)


def reshaped(file: Emitter, x: Value, *_: Any, **__: Any) -> str:
    """Whatever shape it is given: the example tells."""
    return file.reshape(x.name, (x.small, x.large), (file.made.small, file.made.large))


def expanded(file: Emitter, x: Value, *_: Any, **__: Any) -> str:
    """Repeated along dimensions of size 1."""
    if (x.shape, x.large.shape) == (file.made.shape, file.made.large.shape):
        return str(x.name)
    return file.emit("Expand", [x.name, file.sizes(file.made.shape, file.made.large.shape)])


def permuted(file: Emitter, x: Value, *dims: Any) -> str:
    """Dimensions in another order."""
    return file.emit("Transpose", [x.name], perm=[dim % x.dims for dim in _numbers(dims)])


def transposed(file: Emitter, x: Value, dim0: int = 0, dim1: int = 1) -> str:
    """Two dimensions swapped."""
    order = list(range(x.dims))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return file.emit("Transpose", [x.name], perm=order)


def turned(file: Emitter, x: Value, _: str = "") -> str:
    """All dimensions in the reverse order."""
    return permuted(file, x, *reversed(range(x.dims)))


def joined(file: Emitter, parts: Sequence[Value], dim: int = 0) -> str:
    """One behind the other."""
    return file.emit("Concat", [file.operand(part) for part in parts], axis=dim % file.made.dims)


def stacked(file: Emitter, parts: Sequence[Value], dim: int = 0) -> str:
    """Along a new dimension."""
    axis = dim % file.made.dims
    layers = [file.emit("Unsqueeze", [file.operand(part), file.whole(axis)]) for part in parts]
    return file.emit("Concat", layers, axis=axis)


def _end(file: Emitter, end: Any, otherwise: int) -> str:
    if isinstance(end, Value):
        return file.size(end.small, end.large)
    return file.whole(otherwise if end is None else end)


def cut(file: Emitter, name: str, axis: int, start: Any = None, end: Any = None, step: int = 1) -> str:
    """From start to before the end."""
    whole = start in (None, 0) and (end is None or (isinstance(end, int) and end == LAST)) and step == 1
    if whole:
        return name
    ends = [_end(file, start, 0), _end(file, end, LAST)]
    return file.emit("Slice", [name, *ends, file.whole(axis), file.whole(step)])


def sliced(file: Emitter, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> str:
    """A range of a dimension."""
    return cut(file, x.name, dim % x.dims, start, end, step)


def narrowed(file: Emitter, x: Value, dim: int, start: int, length: int) -> str:
    """So many from start on."""
    return cut(file, x.name, dim % x.dims, start, start + length)


def selected(file: Emitter, x: Value, dim: int, index: int) -> str:
    """One of a dimension, which goes."""
    return file.emit("Gather", [x.name, file.constant(index, np.int64)], axis=dim % x.dims)


def parted(file: Emitter, x: Value, _: Any = None, dim: int = 0) -> tuple[str, ...]:
    """In parts, of the sizes that the example's have."""
    parts, start = [], 0
    if x.follows_batch(dim):
        raise file.refuse("a split of the samples")
    for part in file.made.small:
        parts.append(cut(file, x.name, dim % x.dims, start, start + part.shape[dim]))
        start += part.shape[dim]
    return tuple(parts)


def unbound(file: Emitter, x: Value, dim: int = 0) -> tuple[str, ...]:
    """All of a dimension, one by one."""
    if x.follows_batch(dim):
        raise file.refuse("samples one by one")
    return tuple(selected(file, x, dim, index) for index in range(x.shape[dim]))


def flipped(file: Emitter, x: Value, *dims: Any) -> str:
    """From the end to the start."""
    axes = [dim % x.dims for dim in _numbers(dims)]
    count = len(axes)
    ends = [file.whole(*[-1] * count), file.whole(*[-LAST] * count), file.whole(*axes), file.whole(*[-1] * count)]
    return file.emit("Slice", [x.name, *ends])


def rolled(file: Emitter, x: Value, shifts: Any, dims: Any = ()) -> str:
    """What leaves at the end comes in at the start."""
    shifts, dims = ([part] if isinstance(part, int) else list(part) for part in (shifts, dims))
    if not dims or any(x.follows_batch(dim) for dim in dims):
        raise file.refuse("a roll of samples")
    name = x.name
    for shift, dim in zip(shifts, dims, strict=True):
        border = -shift % x.shape[dim]
        parts = [cut(file, name, dim % x.dims, *ends) for ends in ((border, None), (0, border))]
        name = file.emit("Concat", parts, axis=dim % x.dims) if border else name
    return str(name)


def repeated(file: Emitter, x: Value, *repeats: Any) -> str:
    """So many times along each dimension."""
    times = _numbers(repeats)
    new = len(times) - x.dims
    name = file.emit("Unsqueeze", [x.name, file.whole(*range(new))]) if new else x.name
    ends = [
        [getattr(count, end) if isinstance(count, Value) else count for count in times] for end in ("small", "large")
    ]
    return file.emit("Tile", [name, file.sizes(*ends)])


def padded(file: Emitter, x: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> str:
    """Beyond the ends of the last dimensions, named from the last."""
    if mode not in PADDINGS:
        raise file.refuse(f"padding by {mode!r}")
    before, behind = [0] * x.dims, [0] * x.dims
    for place in range(len(pad) // 2):
        before[-1 - place], behind[-1 - place] = pad[2 * place], pad[2 * place + 1]
    inputs = [x.name, file.whole(*before, *behind)]
    return file.emit("Pad", [*inputs, *([file.operand(value or 0)] if mode == "constant" else [])], mode=PADDINGS[mode])


def pixels_shuffled(file: Emitter, x: Value, upscale_factor: int) -> str:
    """Channels to pixels."""
    return file.emit("DepthToSpace", [x.name], blocksize=upscale_factor, mode="CRD")


def ranged(file: Emitter, *_: Any, **__: Any) -> str:
    """0, 1, 2 and so on, up to a size that follows the batch."""
    small = file.made.small
    if not torch.equal(small, torch.arange(len(small), dtype=small.dtype)):
        raise file.refuse("a range other than 0, 1, 2, ... that follows the batch")
    end = file.emit("Squeeze", [file.size(len(small), len(file.made.large)), file.whole(0)])
    made = file.emit("Range", [file.constant(0, np.int64), end, file.constant(1, np.int64)])
    return file.cast(made, torch.int64, small.dtype)


RESHAPES = ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as")
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(RESHAPES, reshaped),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), expanded),
    "permute": permuted,
    "transpose": transposed,
    "t": transposed,
    "T": turned,
    "cat": joined,
    "stack": stacked,
    "slice": sliced,
    "narrow": narrowed,
    "select": selected,
    "unbind": unbound,
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), parted),
    "flip": flipped,
    "roll": rolled,
    "repeat": repeated,
    "pad": padded,
    "mT": lambda file, x, _="": transposed(file, x, -2, -1),
    "constant_pad_nd": lambda file, x, pad, value=0: padded(file, x, pad, "constant", value),
    "pixel_shuffle": pixels_shuffled,
    "arange": ranged,
}
"""By torch's names, with torch's arguments behind the file."""
