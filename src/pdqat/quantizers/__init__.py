"""Quantisers: what the weights and activations of a layer become under a plan."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pdqat.errors import InputError
from pdqat.quantizers.base import Grid, Quantizer
from pdqat.quantizers.dorefa import DoReFaActivation, DoReFaWeight
from pdqat.quantizers.lsq import LSQ
from pdqat.quantizers.uniform import UniformActivation, UniformWeight

__all__ = [
    "LSQ",
    "SCHEMES",
    "DoReFaActivation",
    "DoReFaWeight",
    "Grid",
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


SCHEMES = {
    "dorefa": Scheme(DoReFaWeight, DoReFaActivation),
    "dorefa-unscaled": Scheme(partial(DoReFaWeight, scaled=False), DoReFaActivation),
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
