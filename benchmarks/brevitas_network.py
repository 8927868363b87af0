"""The same network as Brevitas would quantise it, with its default quantisers."""

from typing import Any

import torch
from torch import nn

from pdqat.models.preresnet import Clip


def quantized(model: nn.Module, bits: int, statistics_steps: int) -> nn.Module:
    """Turn weights and activations of a plain pre-activation ResNet low, in place; stem and head stay as they are.

    Convolutions become QuantConv2d with Brevitas' default weight quantiser (symmetric, the step from the largest
    weight, so three values at 2 bits); at 1 bit, for which that has no value but 0, with its ready-made binary one.
    The clip becomes QuantReLU, whose step is learned, from statistics of the first `statistics_steps` steps.
    """
    import brevitas.nn as brevitas_layers
    from brevitas.quant.binary import SignedBinaryWeightPerTensorConst

    weights: dict[str, Any] = {"weight_quant": SignedBinaryWeightPerTensorConst} if bits == 1 else {}
    if bits > 1:
        weights["weight_bit_width"] = bits
    for name, module in list(model.named_modules()):
        parent = model.get_submodule(name.rpartition(".")[0])
        child = name.rpartition(".")[2]
        if isinstance(module, nn.Conv2d) and name != "stem":
            layer = brevitas_layers.QuantConv2d(
                module.in_channels,
                module.out_channels,
                module.kernel_size,
                stride=module.stride,
                padding=module.padding,
                bias=False,
                **weights,
            )
            layer.weight.data.copy_(module.weight.data)
            setattr(parent, child, layer)
        elif isinstance(module, Clip):
            setattr(parent, child, brevitas_layers.QuantReLU(bit_width=bits, collect_stats_steps=statistics_steps))
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model
