"""Which precisions each layer may be given."""

from collections.abc import Iterable, Mapping, Sequence

from pdqat.errors import InputError
from pdqat.precision import Precision
from pdqat.rules import check_all_match, resolve

CANDIDATES = ("1", "2", "4", "8")
"""Unless others are named."""

Bits = str | int | Precision


def candidates_in(bits: Iterable[Bits]) -> list[Precision]:
    """The precisions to choose from, each once."""
    if isinstance(bits, str | int):
        raise InputError(f"the precisions to choose from are a list, such as [2, 4, 8], not {bits!r}")
    precisions = list(dict.fromkeys(Precision.parse(text) for text in bits))
    if not precisions:
        raise InputError("there must be at least one precision to choose from, such as 1, 2, 4, 8")
    return precisions


def choices(
    layers: Iterable[str], candidates: Sequence[Precision], pinned: Mapping[str, Precision]
) -> dict[str, list[Precision]]:
    """Per layer; a layer that is pinned, by name or pattern, has one precision to choose from."""
    layers = list(layers)
    check_all_match(pinned, layers, "the pinned layer")
    pins = {layer: resolve(pinned, layer, None) for layer in layers}
    return {layer: list(candidates) if pin is None else [pin] for layer, pin in pins.items()}
