"""The quantisers of a layer under one plan, and of precisions that are only tried."""

from collections.abc import Iterable

from torch import Tensor, nn

from pdqat.layers.distances import precise
from pdqat.precision import Precision
from pdqat.quantizers import Scheme


class LayerQuantizers(nn.Module):
    """One for the weights, one for the activations that the layer reads."""

    def __init__(self, scheme: Scheme) -> None:
        super().__init__()
        self.weight = scheme.weight()
        self.activation = scheme.activation()

    def low_weight(self, weight: Tensor, precision: Precision) -> Tensor:
        """The weight that a layer has at a precision."""
        return self.weight.full(weight) if precision.weight is None else self.weight.quantize(weight, precision.weight)

    def low_input(self, activation: Tensor, precision: Precision) -> Tensor:
        """What a layer reads at a precision."""
        if precision.activation is None:
            return activation
        return self.activation.quantize(precise(activation), precision.activation).to(activation.dtype)


class Candidates:
    """Precisions at which layers are tried beside their own.

    Quantisers that keep a scale or a step get one for each precision, set from the first input that they see.
    """

    def __init__(self, precisions: Iterable[Precision], scheme: Scheme) -> None:
        self.precisions = tuple(precisions)
        self._scheme = scheme
        self._quantizers: dict[tuple[str, Precision], LayerQuantizers] = {}

    def quantizers(self, layer: str, precision: Precision, activation: Tensor, weight: Tensor) -> LayerQuantizers:
        """Of a layer at one of the precisions."""
        if (layer, precision) not in self._quantizers:
            quantizers = LayerQuantizers(self._scheme).to(weight.device, weight.dtype).eval()
            if precision.activation is not None:
                quantizers.activation.calibrate(precise(activation), precision.activation)
            if precision.weight is not None:
                quantizers.weight.calibrate(weight, precision.weight)
            self._quantizers[layer, precision] = quantizers
        return self._quantizers[layer, precision]
