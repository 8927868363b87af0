"""The kinds of layers that can be precision-aware: how each computes, and where its channels stand."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pdqat.errors import InputError
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.projection import Projection


class PrecisionConv(PrecisionLayer):
    """What the three convolutions share."""

    def _operate(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002 - torch's name
        """The convolution, with torch's own handling of padding modes."""
        assert isinstance(self, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        output: Tensor = self._conv_forward(input, weight, bias)
        return output

    @property
    def channel_dim(self) -> int:
        """Channels stand before the spatial dimensions."""
        return 1 - self.weight.dim()


class PrecisionConv1d(PrecisionConv, nn.Conv1d):
    """A Conv1d that knows its precision."""

    plain = nn.Conv1d


class PrecisionConv2d(PrecisionConv, nn.Conv2d):
    """A Conv2d that knows its precision."""

    plain = nn.Conv2d


class PrecisionConv3d(PrecisionConv, nn.Conv3d):
    """A Conv3d that knows its precision."""

    plain = nn.Conv3d


_TRANSPOSED = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}


class PrecisionConvTranspose(PrecisionLayer):
    """What the three transposed convolutions share. Their weights have input channels first."""

    groups: int
    stride: Any
    padding: Any
    dilation: Any
    output_padding: tuple[int, ...]

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:  # noqa: A002
        """The layer under the network's current view."""
        if output_size is not None:
            sizes = (self.stride, self.padding, self.kernel_size, self.weight.dim() - 2, self.dilation)
            padding = self._output_padding(input, list(output_size), *sizes)  # type: ignore[operator]
            if tuple(padding) != tuple(self.output_padding):
                raise InputError(
                    f"{self.name} is called with output_size={tuple(output_size)}, which needs the output_padding "
                    f"{tuple(padding)}; give the layer that output_padding, so that it is the same for every input"
                )
        return self.compute(input)

    @property
    def rows(self) -> Tensor:
        """The weight with its output channels first."""
        return _swapped(self.weight, self.groups)

    def from_rows(self, rows: Tensor) -> Tensor:
        """The weight with its input channels first."""
        return _swapped(rows, self.groups)

    def _operate(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        """The transposed convolution."""
        options = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        return _TRANSPOSED[weight.dim()](input, self.from_rows(weight), bias, *options)

    @property
    def channel_dim(self) -> int:
        """Channels stand before the spatial dimensions."""
        return 1 - self.weight.dim()

    def operations(self, given: Tensor, output: Tensor) -> int:
        """Every position of the input meets the whole weight of its group."""
        return given.numel() // given.shape[self.channel_dim] * self.weight.numel()


def _swapped(weight: Tensor, groups: int) -> Tensor:
    """With the first two dimensions of each group exchanged: (groups x a, b, ...) to (groups x b, a, ...)."""
    if groups == 1:
        return weight.transpose(0, 1)
    apart = weight.view(groups, -1, *weight.shape[1:]).transpose(1, 2)
    return apart.reshape(-1, *apart.shape[2:])


class PrecisionConvTranspose1d(PrecisionConvTranspose, nn.ConvTranspose1d):
    """A ConvTranspose1d that knows its precision."""

    plain = nn.ConvTranspose1d


class PrecisionConvTranspose2d(PrecisionConvTranspose, nn.ConvTranspose2d):
    """A ConvTranspose2d that knows its precision."""

    plain = nn.ConvTranspose2d


class PrecisionConvTranspose3d(PrecisionConvTranspose, nn.ConvTranspose3d):
    """A ConvTranspose3d that knows its precision."""

    plain = nn.ConvTranspose3d


class _ChannelsLast(PrecisionLayer):
    @property
    def channel_dim(self) -> int:
        """Channels stand last."""
        return -1


class PrecisionLinear(_ChannelsLast, nn.Linear):  # type: ignore[misc]
    """A Linear that knows its precision."""

    plain = nn.Linear

    def _operate(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        """The product."""
        return F.linear(input, weight, bias)


class PrecisionProjection(_ChannelsLast, Projection):
    """A projection of torch's attention that knows its precision."""

    plain = Projection

    def _operate(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        """The product."""
        return F.linear(input, weight, bias)


class PrecisionTransposedLinear(_ChannelsLast):
    """Hugging Face's Conv1D: a linear layer whose weight has its inputs first."""

    @property
    def rows(self) -> Tensor:
        """The weight with its output channels first."""
        return self.weight.transpose(0, 1)

    def from_rows(self, rows: Tensor) -> Tensor:
        """The weight with its inputs first."""
        return rows.transpose(0, 1)

    def _operate(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        """The product, as that library computes it."""
        vectors, inputs_first = input.reshape(-1, input.shape[-1]), self.from_rows(weight)
        product = vectors @ inputs_first if bias is None else torch.addmm(bias, vectors, inputs_first)
        return product.view(*input.shape[:-1], len(weight))


class PrecisionEmbedding(_ChannelsLast, nn.Embedding):
    """An Embedding whose weights know their precision."""

    plain = nn.Embedding
    weights_only = True
    bias = None

    def _operate(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        """The rows of the table that are asked for."""
        return F.embedding(input, weight, self.padding_idx, None, self.norm_type, self.scale_grad_by_freq, self.sparse)

    @property
    def channels(self) -> int:
        """The length of a row."""
        return self.weight.shape[1]

    def operations(self, given: Tensor, output: Tensor) -> int:
        """Rows are looked up."""
        return 0


_KINDS: tuple[type[PrecisionLayer], ...] = (
    PrecisionConv1d,
    PrecisionConv2d,
    PrecisionConv3d,
    PrecisionConvTranspose1d,
    PrecisionConvTranspose2d,
    PrecisionConvTranspose3d,
    PrecisionLinear,
    PrecisionProjection,
    PrecisionEmbedding,
)
LAYERS: dict[type[nn.Module], type[PrecisionLayer]] = {kind.plain: kind for kind in _KINDS}
"""By torch's classes; their subclasses, and those of other libraries, by `kind_of`."""


def kind_of(plain: type[nn.Module]) -> type[PrecisionLayer] | None:
    """The precision-aware class of a plain one with a forward of torch's; None if there is none."""
    if plain in LAYERS:
        return LAYERS[plain]
    if plain.__name__ == "Conv1D" and plain.__module__.startswith("transformers."):
        return subclass(plain, PrecisionTransposedLinear)
    kind = next((aware for known, aware in LAYERS.items() if issubclass(plain, known)), None)
    if kind is None or has_own_forward(plain):
        return None
    return subclass(plain, kind)


def has_own_forward(plain: type[nn.Module]) -> bool:
    """Whether a subclass of one of torch's layers computes in a way of its own."""
    known = next(known for known in LAYERS if issubclass(plain, known))
    return any(
        getattr(plain, method, None) is not getattr(known, method, None)
        for method in ("forward", "_conv_forward", "_output_padding")
    )


def subclass(plain: type[nn.Module], *kinds: type[PrecisionLayer]) -> type[PrecisionLayer]:
    """A precision-aware class that has the plain one's attributes too, such as a weight that is computed."""
    key = (plain, *kinds)
    if key not in _SUBCLASSES:
        attributes = {"plain": plain, "__doc__": kinds[-1].__doc__}
        _SUBCLASSES[key] = type(f"Precision{plain.__name__}", (*kinds, plain), attributes)
    return _SUBCLASSES[key]


_SUBCLASSES: dict[tuple[type[nn.Module], ...], type[PrecisionLayer]] = {}
"""Made once, so that layers of one plain class share theirs."""
