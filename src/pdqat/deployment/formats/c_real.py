"""Functions of real numbers as steps of a C program, by torch's names and with torch's arguments."""

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, fx

from pdqat.deployment.formats.c_rows import RowOperation
from pdqat.deployment.formats.c_steps import Geometry, Sizes, pair
from pdqat.deployment.formats.c_tensors import REAL, Stored
from pdqat.deployment.formats.c_text import structure, table
from pdqat.deployment.integer.functions import function_name
from pdqat.deployment.integer.operations import Clip, ScaleShift

if TYPE_CHECKING:
    from pdqat.deployment.formats.c_program import Program

SHAPINGS = {"flatten", "view", "reshape", "squeeze", "unsqueeze"}
"""They move no number of a vector."""
LARGEST = float(torch.finfo(torch.float32).max)


def written(program: "Program", node: fx.Node) -> Stored:
    """The step of a function; others are refused."""
    name = function_name(node)
    if name not in FUNCTIONS or not all(
        isinstance(program.value(source), Tensor) or program.value(source).kind == REAL
        for source in node.all_input_nodes
    ):
        raise program.refuse(node, f"the function {name or node.target}")
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), program.value)
    named = {key: value for key, value in kwargs.items() if value is not None and key != "_stacklevel"}
    first = [named.pop(key) for key in ("input", "self") if key in named]
    try:
        call = inspect.signature(FUNCTIONS[name]).bind(program, node, *first, *args, **named)
    except TypeError as error:
        raise program.refuse(node, f"the function {name} with these arguments") from error
    return FUNCTIONS[name](*call.args, **call.kwargs)


def clip(program: "Program", node: fx.Node, operation: Clip, given: Stored) -> Stored:
    """Within limits."""
    least = -LARGEST if operation.low is None else operation.low
    most = LARGEST if operation.high is None else operation.high
    row = RowOperation("clip_reals", reals={"least": least, "most": most})
    return program.add_rows(node, row, given, program.new(node, REAL), "within limits")


def scale_shift(program: "Program", node: fx.Node, operation: ScaleShift, given: Stored) -> Stored:
    """A batch norm."""
    tables = {"scales": operation.scale, "biases": operation.shift}
    row = RowOperation(
        "scale_row", tables={field: ("float", _finite(program, node, numbers)) for field, numbers in tables.items()}
    )
    return program.add_rows(node, row, given, program.new(node, REAL), "scale and shift")


def convolution(
    program: "Program",
    node: fx.Node,
    x: Stored,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Stored:
    """Of one or two dimensions."""
    if isinstance(padding, str):
        reach = same_reach(weight, dilation) if padding == "same" else [0] * (weight.dim() - 2)
        if any(number % 2 for number in reach):
            raise program.refuse(node, "padding 'same' that is uneven")
        padding = [number // 2 for number in reach]
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _product(program, node, x, weight, bias, Geometry.of(weight, options))


def same_reach(weight: Tensor, dilation: Sizes) -> list[int]:
    """How much padding 'same' is in all, for each dimension."""
    steps = [dilation] * (weight.dim() - 2) if isinstance(dilation, int) else dilation
    return [(size - 1) * step for size, step in zip(weight.shape[2:], steps, strict=True)]


def linear(program: "Program", node: fx.Node, x: Stored, weight: Tensor, bias: Tensor | None = None) -> Stored:
    """A linear layer of vectors."""
    if x.pixels > 1:
        raise program.refuse(node, "a linear layer of more than one vector a sample")
    return _product(program, node, x, weight, bias, Geometry())


def _product(
    program: "Program", node: fx.Node, x: Stored, weight: Tensor, bias: Tensor | None, geometry: Geometry
) -> Stored:
    made, layer = program.new(node, REAL), f"layer{len(program.steps)}"
    ordered = weight.detach().movedim(1, -1).reshape(len(weight), -1)
    biases = torch.zeros(len(weight)) if bias is None else bias.detach()
    fields = geometry.fields() | {"reals": f"{layer}_weights", "biases": f"{layer}_biases"}
    return program.add(
        node,
        "convolve_real",
        x,
        made,
        f"{geometry}, {x.channels} to {made.channels} channels in real numbers",
        arguments=[f"&{layer}"],
        constants=[
            table("float", f"{layer}_weights", _finite(program, node, ordered)),
            table("float", f"{layer}_biases", _finite(program, node, biases)),
            structure("convolution", layer, fields),
        ],
        constant_bytes=4 * (ordered.numel() + biases.numel()),
        macs=made.size * ordered.shape[1],
    )


def _finite(program: "Program", node: fx.Node, numbers: Tensor) -> np.ndarray:
    if not bool(numbers.isfinite().all()):
        raise program.refuse(node, "a constant that is not a finite number")
    return np.asarray(numbers.detach().numpy())


def add(program: "Program", node: fx.Node, x: Any, other: Any) -> Stored:
    """Of two tensors of one shape."""
    terms = [x, other]
    if not all(isinstance(term, Stored) for term in terms) or x.size != other.size or x.pixels != other.pixels:
        raise program.refuse(node, "a sum of other than two tensors of one shape")
    return program.add_terms(node, "add_reals", terms, program.new(node, REAL))


def flatten(program: "Program", node: fx.Node, x: Stored, *_: Any, **__: Any) -> Stored:
    """All numbers of a sample in one row."""
    made = program.new(node, REAL)
    if made.pixels > 1 or made.channels != x.size:
        raise program.refuse(node, "another shape than one row a sample")
    return program.add(node, "flatten_real", x, made, makes_rows=False)


def cat(program: "Program", node: fx.Node, tensors: Sequence[Any], dim: int = 0) -> Stored:
    """Channels behind each other."""
    made = program.new(node, REAL)
    parts = [part for part in tensors if isinstance(part, Stored) and part.pixels == made.pixels]
    if sum(part.channels for part in parts) != made.channels or dim == 0:
        raise program.refuse(node, "a concatenation of other than channels")
    first = 0
    for part in parts:
        program.add(node, "copy_channels", part, made, arguments=[str(first)], makes_rows=False)
        first += part.channels
    return made


def max_pool(
    program: "Program",
    node: fx.Node,
    x: Stored,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Stored:
    """The largest in each window."""
    if return_indices:
        raise program.refuse(node, "the places of the largest numbers")
    windows = _windows(program, node, kernel_size, stride, padding, dilation)
    return _pool(program, node, "max_pool_real", x, windows)


def average_pool(
    program: "Program",
    node: fx.Node,
    x: Stored,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Stored:
    """The mean of each window."""
    if ceil_mode or divisor_override is not None:
        raise program.refuse(node, "an average with ceil_mode or a divisor of its own")
    windows = _windows(program, node, kernel_size, stride, padding, 1)
    return _pool(program, node, "average_pool_real", x, {**windows, "counts_padding": int(count_include_pad)})


def _windows(
    program: "Program", node: fx.Node, kernel: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes
) -> dict[str, int]:
    dims = program.made(node).dim() - 2
    height, width = pair(kernel, dims, 1)
    fields = {"height": height, "width": width}
    for name, numbers, usual in (("stride", stride or kernel, 1), ("pad", padding, 0), ("dilation", dilation, 1)):
        rows, columns = pair(numbers, dims, usual)
        fields |= {f"{name}_y": rows, f"{name}_x": columns}
    return fields


def _pool(program: "Program", node: fx.Node, kernel: str, x: Stored, fields: dict[str, int]) -> Stored:
    made, layer = program.new(node, REAL), f"layer{len(program.steps)}"
    constants = [structure("windows", layer, fields)]
    return program.add(node, kernel, x, made, arguments=[f"&{layer}"], constants=constants, makes_rows=False)


def adaptive_average(program: "Program", node: fx.Node, x: Stored, output_size: Any) -> Stored:
    """Means of as many parts as are asked for."""
    return program.add(node, "average_parts_real", x, program.new(node, REAL), makes_rows=False)


def mean(program: "Program", node: fx.Node, x: Stored, dim: Any = None, keepdim: bool = False) -> Stored:
    """Of all pixels."""
    dims = program.made(node.all_input_nodes[0]).dim()
    given = [dim] if isinstance(dim, int) else list(dim or [])
    if sorted(number % dims for number in given) != list(range(2, dims)):
        raise program.refuse(node, "a mean over other dimensions than all of the image's")
    return adaptive_average(program, node, x, 1)


FUNCTIONS: dict[str, Callable[..., Stored]] = {
    "conv1d": convolution,
    "conv2d": convolution,
    "linear": linear,
    "add": add,
    "cat": cat,
    **dict.fromkeys(("flatten", "view", "reshape", "squeeze"), flatten),
    "max_pool1d": max_pool,
    "max_pool2d": max_pool,
    "avg_pool1d": average_pool,
    "avg_pool2d": average_pool,
    "adaptive_avg_pool1d": adaptive_average,
    "adaptive_avg_pool2d": adaptive_average,
    "mean": mean,
}
"""Each takes the program and the node, then torch's arguments."""
