"""Layers as files hold them: the options of their operations, and plain layers of torch's in their place."""

import copy
from typing import Any

from torch import Tensor, fx, nn

from pdqat.errors import InputError
from pdqat.layers.kinds import PrecisionConvTranspose, PrecisionEmbedding
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.norm import PrecisionNorm
from pdqat.layers.own_forward import OwnForward

_CONVOLUTIONS: dict[int, Any] = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}
_TRANSPOSED: dict[int, Any] = {3: nn.ConvTranspose1d, 4: nn.ConvTranspose2d, 5: nn.ConvTranspose3d}


class Operation(nn.Module):
    """The one operation of a layer whose forward does more, in a graph that holds the rest of that forward."""

    def __init__(self, layer: PrecisionLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """The operation under the network's current view."""
        return self.layer.compute(input)


def layer_or_norm(module: Any) -> PrecisionLayer | PrecisionNorm | None:
    """What a module of a followed graph is, if it is one of the network's layers or norms."""
    module = module.layer if isinstance(module, Operation) else module
    return module if isinstance(module, PrecisionLayer | PrecisionNorm) else None


def is_transposed(layer: PrecisionLayer) -> bool:
    """Whether it is a transposed convolution."""
    return isinstance(layer, PrecisionConvTranspose)


def convolution(name: str, layer: Any) -> dict[str, Any]:
    """Stride, padding, dilation and groups in numbers; empty for a linear layer."""
    if layer.rows.dim() == 2:
        return {}
    if isinstance(layer, OwnForward):
        return _own_options(name, layer)
    if getattr(layer, "padding_mode", "zeros") != "zeros":
        raise InputError(
            f"layer {name} can't be exported: its padding mode is {layer.padding_mode!r}, not zeros; pad in front of "
            "it, by F.pad or a module such as nn.ReflectionPad2d"
        )
    options = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation, "groups": layer.groups}
    if is_transposed(layer):
        return {**options, "output_padding": tuple(layer.output_padding)}
    return {**options, "padding": _padding(name, layer.padding, layer.dilation, layer.kernel_size)}


def _own_options(name: str, layer: OwnForward) -> dict[str, Any]:
    """What the layer's own forward gives to torch's convolution."""
    operation, kernel = layer.operation, tuple(layer.rows.shape[2:])
    given = dict(zip(("stride", "padding", "dilation", "groups"), operation.args, strict=False))
    given |= dict(operation.kwargs)
    stride, padding, dilation = (
        _one_each(given.get(option, usual), len(kernel))
        for option, usual in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    padding = _padding(name, padding, dilation, kernel)
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": given.get("groups", 1)}


def _one_each(value: Any, dims: int) -> Any:
    """A number for every dimension; the name of a padding is one for all."""
    if isinstance(value, str):
        return value
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * dims if len(values) == 1 else values


def _padding(name: str, padding: Any, dilation: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
    """In numbers."""
    if padding == "valid":
        return (0,) * len(kernel)
    if padding == "same":
        if any(size % 2 == 0 for size in kernel):
            raise InputError(
                f"layer {name} can't be exported: padding 'same' with an even kernel is uneven; pad in front of "
                "it, by F.pad"
            )
        return tuple(d * (size - 1) // 2 for d, size in zip(dilation, kernel, strict=True))
    return tuple(padding)


def plain_layer(name: str, layer: PrecisionLayer, rows: Tensor) -> nn.Module:
    """A layer of torch's own that computes the layer's operation with a weight in rows."""
    plain: nn.Module = _empty(name, layer, rows)
    weight = layer.from_rows(rows).contiguous() if is_transposed(layer) else rows
    plain.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    if layer.bias is not None:
        plain.bias = nn.Parameter(layer.bias.detach().clone(), requires_grad=False)
    return plain.eval()


def _empty(name: str, layer: PrecisionLayer, rows: Tensor) -> Any:
    """Without numbers, which would be drawn at random."""
    if isinstance(layer, PrecisionEmbedding):
        return nn.Embedding(rows.shape[0], rows.shape[1], layer.padding_idx, device="meta")
    has_bias = layer.bias is not None
    if rows.dim() == 2:
        return nn.Linear(rows.shape[1], rows.shape[0], has_bias, device="meta")
    options = convolution(name, layer)
    kind = (_TRANSPOSED if is_transposed(layer) else _CONVOLUTIONS)[rows.dim()]
    inputs = rows.shape[1] * options["groups"]
    return kind(inputs, rows.shape[0], tuple(rows.shape[2:]), **options, bias=has_bias, device="meta")


def in_full_precision(followed: fx.GraphModule) -> fx.GraphModule:
    """A followed network's full-precision view, with plain layers and norms of torch's."""
    plain = fx.GraphModule(followed, copy.deepcopy(followed.graph))
    for name in {str(node.target) for node in plain.graph.nodes if node.op == "call_module"}:
        module = layer_or_norm(followed.get_submodule(name))
        if isinstance(module, PrecisionLayer):
            plain.set_submodule(name, plain_layer(module.name, module, module.full_weight()))
        elif isinstance(module, PrecisionNorm):
            norm = copy.deepcopy(module)
            norm.restore_()
            plain.set_submodule(name, norm.eval())
    return plain
