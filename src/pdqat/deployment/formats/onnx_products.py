"""Products of tensors as ONNX has them: of matrices, convolutions, attention."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import torch

from pdqat.deployment.formats.onnx_emitter import Emitter, Value
from pdqat.deployment.formats.onnx_parts import as_list

Sizes = int | Sequence[int]


def matmul(file: Emitter, x: Value, other: Value) -> str:
    """Of matrices, vectors, and batches of them."""
    return file.emit("MatMul", [file.operand(x), file.operand(other)])


def linear(file: Emitter, x: Value, weight: Value, bias: Value | None = None) -> str:
    """With a transposed matrix."""
    if weight.is_constant:
        transposed = file.constant(weight.small.T)
    else:
        transposed = file.emit("Transpose", [weight.name], perm=[1, 0])
    product = file.emit("MatMul", [x.name, transposed])
    return product if bias is None else file.emit("Add", [product, bias.name])


def addmm(file: Emitter, added: Value, x: Value, other: Value, *, beta: float = 1, alpha: float = 1) -> str:
    """beta x added + alpha x product."""
    product, term = file.emit("MatMul", [x.name, other.name]), added.name
    product = product if alpha == 1 else file.emit("Mul", [product, file.scalar(alpha)])
    term = term if beta == 1 else file.emit("Mul", [term, file.scalar(beta)])
    return file.emit("Add", [product, term])


def einsum(file: Emitter, equation: str, *operands: Any) -> str:
    """By its equation."""
    given = operands[0] if isinstance(operands[0], tuple | list) else operands
    return file.emit("Einsum", [value.name for value in given], equation=equation.replace(" ", ""))


def same_padding(size: int, dilation: int) -> tuple[int, int]:
    """Before and behind, as torch's padding 'same' has it."""
    reach = dilation * (size - 1)
    return reach // 2, reach - reach // 2


def convolution(
    file: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> str:
    """Of one, two or three dimensions."""
    dims = weight.dims - 2
    kernel, dilations = weight.shape[2:], as_list(dilation, dims)
    if padding == "same":
        pairs = [same_padding(*pair) for pair in zip(kernel, dilations, strict=True)]
    else:
        pairs = [(before, before) for before in as_list(0 if isinstance(padding, str) else padding, dims)]
    return file.emit(
        "Conv",
        [x.name, weight.name, *([] if bias is None else [bias.name])],
        kernel_shape=list(kernel),
        strides=as_list(stride, dims),
        pads=[*(before for before, _ in pairs), *(behind for _, behind in pairs)],
        dilations=dilations,
        group=groups,
    )


def transposed_convolution(
    file: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> str:
    """A convolution's gradient by its input."""
    dims = weight.dims - 2
    return file.emit(
        "ConvTranspose",
        [x.name, weight.name, *([] if bias is None else [bias.name])],
        kernel_shape=list(weight.shape[2:]),
        strides=as_list(stride, dims),
        pads=as_list(padding, dims) * 2,
        output_padding=as_list(output_padding, dims),
        dilations=as_list(dilation, dims),
        group=groups,
    )


def any_convolution(
    file: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> str:
    """Either of the two, as torch's one operator has it."""
    if transposed:
        return transposed_convolution(file, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return convolution(file, x, weight, bias, stride, padding, dilation, groups)


def attention(
    file: Emitter,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> str:
    """softmax(scale x query x keys, where the mask lets them) x values."""
    if enable_gqa or dropout_p:
        raise file.refuse("attention with dropout or grouped queries")
    order = [*range(key.dims - 2), key.dims - 1, key.dims - 2]
    turned = file.emit("Transpose", [key.name], perm=order)
    by = 1 / sqrt(query.shape[-1]) if scale is None else scale
    scores = file.emit("MatMul", [file.emit("Mul", [query.name, file.scalar(by)]), turned])
    if is_causal:
        hidden = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        scores = file.emit("Where", [file.constant(hidden), scores, file.scalar(-torch.inf)])
    elif attn_mask is not None and attn_mask.small.dtype == torch.bool:
        scores = file.emit("Where", [attn_mask.name, scores, file.scalar(-torch.inf)])
    elif attn_mask is not None:
        scores = file.emit("Add", [scores, attn_mask.name])
    return file.emit("MatMul", [file.emit("Softmax", [scores], axis=-1), value.name])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "matmul": matmul,
    "mm": matmul,
    "bmm": matmul,
    "linear": linear,
    "addmm": addmm,
    "baddbmm": addmm,
    **{f"conv{dims}d": convolution for dims in (1, 2, 3)},
    **{f"conv_transpose{dims}d": transposed_convolution for dims in (1, 2, 3)},
    "convolution": any_convolution,
    "einsum": einsum,
    "scaled_dot_product_attention": attention,
}
"""By torch's names, with torch's arguments behind the file."""
