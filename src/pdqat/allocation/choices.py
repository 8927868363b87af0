"""Which precisions each layer may be given."""

from collections.abc import Collection, Iterable, Mapping, Sequence

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


Allowed = Mapping[str, Sequence[Precision]]
"""By layer, the precisions that what the network is for can run."""


def choices(
    layers: Iterable[str],
    candidates: Sequence[Precision],
    pinned: Mapping[str, Precision],
    allowed: Allowed | None = None,
    spare: Collection[str] = (),
) -> dict[str, list[Precision]]:
    """Per layer; a layer that is pinned, by name or pattern, has one precision to choose from.

    0 bits are for the layers that are `spare`.
    """
    layers = list(layers)
    check_all_match(pinned, layers, "the pinned layer")
    made = {}
    for layer in layers:
        pin = resolve(pinned, layer, None)
        wished = [it for it in candidates if layer in spare or not it.is_dropped] if pin is None else [pin]
        if not wished:
            raise InputError(f"layer {layer!r} can't be dropped: name other precisions to choose from beside 0")
        made[layer] = wished if allowed is None else [it for it in wished if it in allowed[layer]]
        if not made[layer]:
            raise InputError(
                f"layer {layer!r} can't have {', '.join(map(str, wished))} bits in this target, only "
                f"{', '.join(map(str, allowed[layer])) if allowed else ''}"
            )
    return made
