"""Writing weights into a plain model, as `Network.restore` does: quantised ones, or those of full precision."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pdqat.errors import InputError
from pdqat.layers.layer import PrecisionLayer
from pdqat.layers.modes import evaluating
from pdqat.layers.projection import SplitAttention


@torch.no_grad()
def new_weights(model: nn.Module, of: Callable[[PrecisionLayer], Tensor], what: str) -> dict[nn.Module, Tensor]:
    """What each quantised layer's weight is to become, as the plain layer has it.

    Args:
        model: of a network.
        of: a layer's new weight, in rows.
        what: what is done to the weights, for messages.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, PrecisionLayer) and layer.quantizer]
    weights: dict[nn.Module, Tensor] = {}
    by_parameter: dict[Tensor, Tensor] = {}
    with evaluating(model):  # spectral norms change with every look at a weight in training mode
        check_shared_weights(model, layers, what)
        for layer in layers:
            weight = layer.from_rows(of(layer)).clone()
            known = by_parameter.setdefault(layer.weight, weight)
            if known is not weight and not torch.equal(known, weight):
                raise InputError(f"{layer.name!r} shares its weight with a layer that rounds it in another way")
            weights[layer] = weight
    return weights


@torch.no_grad()
def write(weights: Mapping[nn.Module, Tensor]) -> None:
    """Write weights into plain layers. One that was computed from others, as weight norms do, becomes a Parameter."""
    for layer, value in weights.items():
        if torch.equal(_weight(layer), value):
            continue
        if parametrize.is_parametrized(layer):
            _unparametrize(layer, value)
        _weight(layer).copy_(value)


def _unparametrize(layer: nn.Module, weight: Tensor) -> None:
    """Give a layer whose weight is computed one of its own.

    Not by torch's function, which changes the class that copies of the layer share.
    """
    computed = list(layer.parametrizations)  # type: ignore[arg-type]
    if computed != ["weight"]:
        raise InputError(
            f"{type(layer).__name__} has parametrizations of {', '.join(computed)}; remove them "
            "(torch.nn.utils.parametrize.remove_parametrizations) before the weights are written"
        )
    del layer._modules["parametrizations"]
    layer.__class__ = type(layer).__bases__[0]
    layer.register_parameter("weight", nn.Parameter(weight.clone()))


def check_shared_weights(model: nn.Module, layers: Sequence[PrecisionLayer], what: str) -> None:
    """Refuse to write into weights that modules other than these layers use too."""
    written = {layer.weight for layer in layers}
    for name, module in model.named_modules():
        if module in layers or isinstance(module, SplitAttention):  # which holds the weights of its projections
            continue
        if any(parameter in written for parameter in module.parameters(recurse=False)):
            raise InputError(f"{name!r} shares the weight of a quantised layer, which can't be {what} for both")


def _weight(layer: nn.Module) -> Tensor:
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight
