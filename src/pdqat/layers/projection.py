"""torch's MultiheadAttention with its packed projections as layers of their own.

`split_` changes the class of an attention in place: it gets the children q_proj, k_proj and v_proj, whose weights are
parts of its packed Parameters, so that these and their state_dict keys stay as they are. `join_` takes it back.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PARTS = ("q_proj", "k_proj", "v_proj")


class Projection(nn.Module):
    """One of an attention's three input projections; its weight and bias are parts of the attention's."""

    def __init__(self, attention: nn.MultiheadAttention, part: int) -> None:
        super().__init__()
        self._attention = (attention,)  # in a tuple, which torch does not take for a child
        self._part = part

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """The product."""
        return F.linear(input, self.weight, self.bias)

    @property
    def weight(self) -> Tensor:
        """Of this projection."""
        (attention,) = self._attention
        packed: Tensor | None = attention.in_proj_weight
        if packed is None:
            own: Tensor = getattr(attention, f"{PARTS[self._part]}_weight")
            return own
        return packed[self._rows]

    @property
    def bias(self) -> Tensor | None:
        """Of this projection."""
        packed = self._attention[0].in_proj_bias
        return None if packed is None else packed[self._rows]

    @property
    def _rows(self) -> slice:
        size = self._attention[0].embed_dim
        return slice(self._part * size, (self._part + 1) * size)


class SplitAttention(nn.MultiheadAttention):
    """An attention that calls its projections as layers."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As torch's own computes it."""
        is_batched = query.dim() == 3
        if not is_batched:
            query, key, value = (tensor.unsqueeze(0) for tensor in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (tensor.transpose(0, 1) for tensor in (query, key, value))
        queries, keys, values = (
            self._heads(getattr(self, part)(given)) for part, given in zip(PARTS, (query, key, value), strict=True)
        )
        mask = self._mask(attn_mask, key_padding_mask, queries)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = queries @ keys.transpose(-2, -1) / self.head_dim**0.5
            weights = torch.softmax(scores if mask is None else scores + mask, -1)
            weights = F.dropout(weights, dropout) if dropout else weights
            mixed = weights @ values
        else:
            mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=dropout)
        output = self.out_proj(mixed.transpose(1, 2).flatten(2))
        if weights is not None:
            weights = weights.mean(1) if average_attn_weights else weights
        if not is_batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output if self.batch_first else output.transpose(0, 1), weights

    def _heads(self, tensor: Tensor) -> Tensor:
        return tensor.view(*tensor.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def _mask(self, attention: Tensor | None, padding: Tensor | None, like: Tensor) -> Tensor | None:
        """Both masks as numbers to add to the scores, (batch, heads, queries, keys)."""
        mask = None
        if attention is not None:
            mask = _additive(attention, like)
            if mask.dim() == 3:
                mask = mask.view(-1, self.num_heads, *mask.shape[1:])
        if padding is not None:
            hidden = _additive(padding, like)[:, None, None, :]
            mask = hidden if mask is None else mask + hidden
        return mask


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype is not torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill(mask, -torch.inf)


def why_not_split(attention: nn.MultiheadAttention) -> str | None:
    """The reason for which an attention has to stay as it is, if there is one."""
    if isinstance(attention, SplitAttention):
        return None
    if type(attention) is not nn.MultiheadAttention:
        return f"{type(attention).__name__} is a subclass of MultiheadAttention with packed projections"
    if attention.bias_k is not None or attention.add_zero_attn:
        return "MultiheadAttention with add_bias_kv or add_zero_attn keeps its packed projections"
    return None


class PaddedEncoder(nn.TransformerEncoder):
    """An encoder that keeps padded batches as they are: nested ones would be computed past its layers."""

    use_nested_tensor = property(lambda _: False)


def split_(model: nn.Module) -> None:
    """Split every attention in a model that can be, in place."""
    for module in list(model.modules()):
        if type(module) is nn.TransformerEncoder:
            module.__class__ = PaddedEncoder
        if isinstance(module, nn.MultiheadAttention) and why_not_split(module) is None:
            for index, part in enumerate(PARTS):
                module.add_module(part, Projection(module, index).train(module.training))
            module.__class__ = SplitAttention


def join_(model: nn.Module) -> None:
    """Make every attention that was split torch's own again, in place."""
    module: Any
    for module in list(model.modules()):
        if isinstance(module, PaddedEncoder):
            module.__class__ = nn.TransformerEncoder  # type: ignore[assignment]
        if isinstance(module, SplitAttention):
            for part in PARTS:
                delattr(module, part)
            module.__class__ = nn.MultiheadAttention  # type: ignore[assignment]
