"""Kinds of processors: how they multiply bytes, and on which of them the sums of a file are right.

With VNNI (of AVX-512 or AVX) four products of bytes are added in 32 bits. Without it two of them are added in 16 bits
first, which saturate where an unsigned code and a signed weight are both large. What holds for one kind, as a
verification on it shows, holds for the other if no two products of the file can exceed 16 bits.
"""

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import fx

from pdqat.deployment.integer.operations import IntegerProduct
from pdqat.deployment.integer.values import largest_signed

WITH_VNNI, WITHOUT_VNNI = "with VNNI", "without VNNI"
KINDS = {
    "avx512_vnni": "AVX-512 VNNI",
    "avx_vnni": "AVX VNNI",
    "avx2": "AVX2",
    "sse4_1": "SSE4",
    "asimddp": "Arm dot products",
    "asimd": "Arm NEON",
}
"""By what the system calls the instructions, the best first."""


def kind_of_processor(about: Path = Path("/proc/cpuinfo")) -> str:
    """What this processor multiplies bytes with; its architecture where the system does not say."""
    lines = about.read_text(errors="replace").splitlines() if about.exists() else []
    flags = {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split()}
    return next((kind for flag, kind in KINDS.items() if flag in flags), platform.machine())


def kinds_it_holds_on(module: fx.GraphModule) -> list[str]:
    """The kinds on which runtimes add the products of a frozen module without saturation.

    In a sum of summands no two in a row both count, and 255 x 127 is less than 16 bits hold.
    """
    return [WITH_VNNI, *([WITHOUT_VNNI] if all(_fit_into_16_bits(module)) else [])]


def _fit_into_16_bits(module: fx.GraphModule) -> Iterator[bool]:
    """For each layer with signed weights, whether any two of its products do."""
    for node in module.graph.nodes:
        product = module.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(product, IntegerProduct) and product.signed:
            codes: Any = module.get_submodule(str(node.args[0].target))
            yield int(product.weight.int().abs().max()) <= largest_signed(codes.low, codes.high)
