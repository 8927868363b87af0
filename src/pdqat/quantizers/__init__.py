"""Quantisers: what the weights and activations of a layer become under a plan."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pdqat.errors import InputError
from pdqat.quantizers.base import Grid, Quantizer
from pdqat.quantizers.dorefa import DoReFaActivation, DoReFaByteActivation, DoReFaWeight
from pdqat.quantizers.lsq import LSQ
from pdqat.quantizers.normal import SIGNED_BYTE, NormalWeight
from pdqat.quantizers.power_of_two import PowerOfTwo
from pdqat.quantizers.uniform import UniformActivation, UniformWeight

__all__ = [
    "LSQ",
    "SCHEMES",
    "DoReFaActivation",
    "DoReFaByteActivation",
    "DoReFaWeight",
    "Grid",
    "NormalWeight",
    "PowerOfTwo",
    "Quantizer",
    "Scheme",
    "UniformActivation",
    "UniformWeight",
    "scheme",
]


@dataclass(frozen=True)
class Scheme:
    """How to make the quantisers of one layer: one for its weights, one for the activations it reads."""

    weight: Callable[[], Quantizer]
    activation: Callable[[], Quantizer]

    def __deepcopy__(self, memo: dict[int, object]) -> "Scheme":
        return self  # a copied network has the scheme that it had, which files know by its name


HALF_BYTE = 64
"""Two products of it with an unsigned byte fit into 16 bits, in which processors without VNNI add them."""

SCHEMES = {
    "dorefa": Scheme(DoReFaWeight, DoReFaActivation),
    "dorefa-unscaled": Scheme(partial(DoReFaWeight, scaled=False), DoReFaActivation),
    "dorefa-int8": Scheme(partial(DoReFaWeight, largest_byte=SIGNED_BYTE), DoReFaActivation),
    "dorefa-bytes": Scheme(partial(DoReFaWeight, largest_byte=HALF_BYTE), DoReFaByteActivation),
    "dorefa-lsq": Scheme(DoReFaWeight, partial(LSQ, signed=False)),
    "normal": Scheme(NormalWeight, partial(DoReFaActivation, gradual=True)),
    "normal-bytes": Scheme(
        partial(NormalWeight, largest_byte=HALF_BYTE, one_scale_of_bytes=True),
        partial(DoReFaByteActivation, gradual=True),
    ),
    "uniform": Scheme(UniformWeight, UniformActivation),
    "uniform-channel": Scheme(partial(UniformWeight, per_channel=True), UniformActivation),
    "lsq": Scheme(partial(LSQ, signed=True), partial(LSQ, signed=False)),
}


def scheme(name: str | Scheme) -> Scheme:
    """The scheme of that name."""
    if isinstance(name, Scheme):
        return name
    if name not in SCHEMES:
        raise InputError(f"unknown quantizer {name!r}; choose one of {', '.join(SCHEMES)}")
    return SCHEMES[name]
